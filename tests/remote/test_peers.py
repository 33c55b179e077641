# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_peers.py - against packages of others: moto as S3 server, and a cache that huggingface_hub itself filled. Needs
the packages of tests/remote/requirements.txt (make test-peers)."""
from __future__ import annotations

import logging
import os
import sys

import boto3
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
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test",
                          aws_secret_access_key="test")
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
    sys.exit(tests.run(s3, hub))
