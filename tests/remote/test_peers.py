# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_peers.py - against packages of others: moto as S3 server, and a cache that huggingface_hub itself filled. Needs
the packages of tests/remote/requirements.txt (make test-peers)."""

from __future__ import annotations

import json
import logging
import os
import sys
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import harness
import hostile_server
from huggingface_hub import hf_hub_download
from moto.server import ThreadedMotoServer

INDEX = "model.safetensors.index.json"
FILES = [INDEX, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def s3(t: harness.Tests) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = "http://%s:%d" % (host, port)
    env = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket="bucket")
    for name in FILES:
        client.upload_file(os.path.join(t.files, name), "bucket", "models/a b/" + name)
    url = "s3://bucket/models/a b/"
    local = t.tool("hash", "--content", t.files).stdout.split()[0]
    done = t.tool("hash", "--content", url + INDEX, env=env)
    t.equal("content", done.stdout.split()[:1], [local])
    t.equal("check", t.tool("check", url + FILES[1], env=env).returncode, 0)
    t.equal("diff", t.tool("diff", url + INDEX, t.files, env=env).returncode, 0)
    out = os.path.join(t.tmp, "from-s3")
    t.equal("fetch", t.tool("fetch", url + INDEX, "-o", out, env=env).returncode, 0)
    for name in FILES:
        t.equal(name, harness.sha256(os.path.join(out, name)), harness.sha256(os.path.join(t.files, name)))
    got = t.probe("env=1", "open", "s3://bucket/nothing.safetensors", env=env)
    t.equal("missing", (got["status"], got["sys"]), ("SFT_E_HTTP", 404))
    server.stop()


KEYS = [
    "plain",
    "a b",
    "a//b",
    "/lead",
    "end/",
    "\u00fc\u4e2d",
    "a+b",
    "a%b",
    "a%20b",
    "q?x=1",
    "t~-._",
    "(x)!*'",
    "a=b&c",
    "x;y:z@",
    "A/B/C.d",
]


def signatures(t: harness.Tests) -> None:
    """Every signature that the server sees is the one that botocore makes of the same request."""
    server = hostile_server.start(t.files, t.log, "s3")
    home = "http://127.0.0.1:%d" % server.server_address[1]
    secret = hostile_server.SECRETS["test-key"]
    checked = 0
    for token in (None, "session/token+=="):
        env = {
            "AWS_ENDPOINT_URL": home + "/s3",
            "AWS_ACCESS_KEY_ID": "test-key",
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "eu-test-1",
            **({"AWS_SESSION_TOKEN": token} if token else {}),
        }
        for key in KEYS:
            t.forget()
            t.probe("env=1", "retries=0", "open", "s3://bucket/" + key, env=env)
            seen = [e for e in t.logged() if e["signed"]]
            t.check("signed: " + key, len(seen) > 0, t.logged())
            for entry in seen:
                headers = {k.lower(): v for k, v in entry["signed"].items()}
                said = dict(
                    p.strip().split("=", 1) for p in headers["authorization"].partition(" ")[2].split(",")
                )
                names = said["SignedHeaders"].split(";")
                t.check("digest of the body", "x-amz-content-sha256" in names, names)
                t.check("session token", ("x-amz-security-token" in names) == (token is not None), names)
                request = botocore.awsrequest.AWSRequest(
                    method="GET",
                    url=home + entry["path"],
                    headers={n: headers[n] for n in names if n != "host"},
                )
                request.context["timestamp"] = headers["x-amz-date"]
                auth = botocore.auth.S3SigV4Auth(
                    botocore.credentials.Credentials("test-key", secret), "s3", "eu-test-1"
                )
                text = auth.string_to_sign(request, auth.canonical_request(request))
                t.equal("signature of " + key, said["Signature"], auth.signature(text, request))
                checked += 1
    print("%d signatures are botocore's" % checked)


def checked_by_moto(t: harness.Tests) -> None:
    """moto with its authentication on: it computes signatures itself and looks policies up."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = "http://%s:%d" % (host, port)
    boot = {
        "endpoint_url": endpoint,
        "region_name": "us-east-1",
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
    }
    iam = boto3.client("iam", **boot)
    iam.create_user(UserName="reader")
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    client = boto3.client("s3", **boot)
    client.create_bucket(Bucket="bucket")
    client.upload_file(os.path.join(t.files, FILES[1]), "bucket", "models/a b/x.safetensors")
    urllib.request.urlopen(
        urllib.request.Request(endpoint + "/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    )
    env = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }
    url = "s3://bucket/models/a b/x.safetensors"
    good = t.tool("check", url, env=env)
    t.equal("right key", good.returncode, 0)
    bad = t.tool("check", url, env={**env, "AWS_SECRET_ACCESS_KEY": "wrong" + key["SecretAccessKey"]})
    t.check("wrong key", bad.returncode != 0 and "SignatureDoesNotMatch" in bad.stderr + bad.stdout, bad)
    bad = t.tool("check", url, env={**env, "AWS_ACCESS_KEY_ID": "unknown"})
    t.check("unknown key", bad.returncode != 0 and "InvalidAccessKeyId" in bad.stderr + bad.stdout, bad)
    server.stop()


def hub(t: harness.Tests) -> None:
    """huggingface_hub downloads from our server into its cache; the tool reads that cache, offline."""
    server = hostile_server.start(t.files, t.log, "hub")
    server.state.other = "http://127.0.0.1:%d" % server.server_address[1]
    cache = os.path.join(t.tmp, "hub-cache")
    for name in FILES:
        hf_hub_download("org/repo", name, cache_dir=cache, endpoint=server.state.other + "/lfs")
    env = {"HF_HUB_CACHE": cache, "HF_HUB_OFFLINE": "1"}
    local = t.tool("hash", "--content", t.files).stdout.split()[0]
    for url in ("hf://org/repo", "hf://org/repo/" + INDEX, "hf://org/repo@" + hostile_server.COMMIT):
        done = t.tool("hash", "--content", url, env=env)
        t.equal(url, done.stdout.split()[:1], [local])


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    tests = harness.Tests()
    sys.exit(tests.run(s3, signatures, checked_by_moto, hub))
