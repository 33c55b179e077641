# SPDX-License-Identifier: Apache-2.0 OR MIT
"""URLs as places of tensors: the same as from the local file, through nginx; and what is said without the library.

The package reads URLs with the system's libcurl.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import safetensors_c.numpy as ours
from safetensors_c import SafetensorError, safe_open

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INDEX = "model.safetensors.index.json"
SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    sys.path.insert(0, os.path.join(ROOT, "tests", "remote"))
    import test_nginx  # pylint: disable=import-outside-toplevel,import-error

    tmp = tmp_path_factory.mktemp("nginx")
    shutil.copytree(os.path.join(ROOT, "examples", "model"), tmp / "files")
    numbers = {"n%d" % i: np.arange(i * 1000, dtype=np.float32).reshape(i, 1000) for i in range(1, 50)}
    ours.save_file(numbers, tmp / "files" / "numbers.safetensors", metadata={"k": "v"})
    nginx = test_nginx.Nginx(types.SimpleNamespace(tmp=str(tmp), files=str(tmp / "files")))
    yield nginx, str(tmp / "files")
    nginx.stop()


def equal(a, b):
    return list(a) == list(b) and all(np.array_equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


def test_handle(server):
    nginx, directory = server
    url, path = nginx.plain + "/numbers.safetensors", directory + "/numbers.safetensors"
    with safe_open(url, "np") as there, safe_open(path, "np") as here:
        assert there.keys() == here.keys() and there.metadata() == {"k": "v"}
        assert equal(there.get_tensors(), here.get_tensors())
        for name in there.keys():
            assert np.array_equal(there.get_tensor(name), here.get_tensor(name))
            meta = there.get_tensor_meta(name)
            assert meta.shape == here.get_tensor_meta(name).shape
        for index in (slice(2, 5), (slice(None), slice(5, 9)), 3, (slice(None, None, 2), slice(0, 1000, 7))):
            assert np.array_equal(there.get_slice("n40")[index], here.get_slice("n40")[index])
        there.get_tensor("n7")[0] = 1  # memory of one's own
        assert np.array_equal(there.get_tensor("n7"), here.get_tensor("n7"))


def test_load_file(server):
    nginx, directory = server
    assert equal(
        ours.load_file(nginx.plain + "/numbers.safetensors"),
        ours.load_file(directory + "/numbers.safetensors"),
    )
    picked = ours.load_file(nginx.plain + "/numbers.safetensors", select=["n3", "n9"])
    assert sorted(picked) == ["n3", "n9"] and picked["n9"].shape == (9, 1000)


def test_torch_and_shards(server):
    torch = pytest.importorskip("torch")
    import safetensors_c.torch as with_torch  # pylint: disable=import-outside-toplevel

    nginx, directory = server
    there = with_torch.load_file(nginx.plain + "/" + INDEX)
    here = with_torch.load_file(directory + "/" + INDEX)
    assert list(there) == list(here) and len(there) == 29
    assert all(torch.equal(there[k], here[k]) for k in here)


def test_hub_and_s3(server, tmp_path):
    sys.path.insert(0, os.path.join(ROOT, "tests", "remote"))
    import hostile_server  # pylint: disable=import-outside-toplevel,import-error

    _, directory = server
    s3 = hostile_server.start(directory, str(tmp_path / "log"), "s3")
    endpoint = "http://127.0.0.1:%d" % s3.server_address[1]
    script = """
import json, os, sys
import safetensors_c.numpy as n
a = n.load_file(sys.argv[1])
b = n.load_file(sys.argv[2])
assert list(a) == list(b) and all((a[k] == b[k]).all() for k in a)
print(len(a))
"""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "AWS_"))}
    env.update(
        AWS_ACCESS_KEY_ID="test-key",
        AWS_SECRET_ACCESS_KEY="test/secret+key",
        AWS_ENDPOINT_URL=endpoint + "/s3",
    )
    env.update(HOME=str(tmp_path))
    env.update(HF_ENDPOINT=server[0].plain)
    place = os.path.join(directory, "org", "model", "resolve", "main")
    if not os.path.isdir(place):
        os.makedirs(place)
        shutil.copy(os.path.join(directory, "numbers.safetensors"), place)
    for url in ("hf://org/model/numbers.safetensors", "s3://bucket/numbers.safetensors"):
        done = subprocess.run(
            [sys.executable, "-c", script, url, directory + "/numbers.safetensors"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert (done.returncode, done.stdout) == (0, "49\n"), done.stderr


def test_errors(server):
    nginx, _ = server
    with pytest.raises(SafetensorError) as caught:
        safe_open(nginx.plain + "/nothing.safetensors", "np")
    assert caught.value.status == "SFT_E_HTTP" and "HTTP 404" in str(caught.value)
    assert "/nothing.safetensors" in str(caught.value)
    with pytest.raises(SafetensorError) as caught:
        safe_open(nginx.plain + "/config.json", "np")
    assert caught.value.status != "SFT_E_HTTP"
    with pytest.raises(SafetensorError) as caught:
        ours.load_file("http://example.org/model.safetensors")  # unencrypted, and not this machine
    assert caught.value.status == "SFT_E_PATH"


def test_without_libcurl(server, tmp_path):
    script = (
        "import safetensors_c as s, sys\n"
        "try: s.safe_open(sys.argv[1], 'np')\n"
        "except s.SafetensorError as e: print(e.status, e)"
    )
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (tmp_path / name).touch()  # no library, and the search ends here
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script, server[0].plain + "/numbers.safetensors"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("SFT_E_UNSUPPORTED") and "needs libcurl 7.85 or later" in done.stdout


def test_fork_makes_its_own(server):
    nginx, _ = server
    url = nginx.plain + "/numbers.safetensors"
    before = ours.load_file(url, select=["n3"])
    child = os.fork()
    if child == 0:
        good = equal(ours.load_file(url, select=["n3"]), before)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert equal(ours.load_file(url, select=["n3"]), before)


def test_threads(server):
    from concurrent.futures import ThreadPoolExecutor  # pylint: disable=import-outside-toplevel

    nginx, directory = server
    here = ours.load_file(directory + "/numbers.safetensors")
    with safe_open(nginx.plain + "/numbers.safetensors", "np") as there, ThreadPoolExecutor(8) as pool:
        names = list(there.keys()) * 4
        for name, tensor in zip(names, pool.map(there.get_tensor, names)):
            assert np.array_equal(tensor, here[name])


def test_local_files_start_without_it(tmp_path):
    ours.save_file({"a": np.arange(3)}, tmp_path / "a.safetensors")
    script = (
        "import safetensors_c as s, sys\nf = s.safe_open(sys.argv[1], 'np'); f.keys()\n"
        "print(any('safetensors-remote' in l or 'libcurl' in l for l in open('/proc/self/maps')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.safetensors")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
