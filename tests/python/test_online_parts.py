# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Four processes each bring their part of a model: of a Hugging Face directory and of a rank directory of another
strategy, from disk, and from servers that serve several ranges at once, or one. Bytes per process against its share
(pytest -s prints them); what arrives is compared with what PyPI's safetensors loads and numpy cuts."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

PARTS = 4
LAYOUT = "dp=1,tp=4,pp=1"
WIDTH, INNER, WORDS = 1024, 2048, 512
KIB = 1 << 10
tool = pytest.mark.skipif("SFT_TOOL" not in os.environ, reason="SFT_TOOL names no tool")

CHILD = """
import hashlib, json, sys
import numpy
from safetensors_c import distributed
def read():
    with open("/proc/self/io") as f:
        return int(f.read().split()[1])
source, layout, rank, config, source_layout = sys.argv[1:]
with open(config): pass
before = read()
got = distributed.load_part(source, layout, int(rank), config=config, source_layout=source_layout or None)
sums = {n: [str(v.dtype), list(v.shape), hashlib.sha256(v.tobytes()).hexdigest()] for n, v in got.items()}
print(json.dumps({"read": read() - before, "share": sum(v.nbytes for v in got.values()), "sums": sums}))
"""


def cut(name: str, whole: np.ndarray, rank: int) -> np.ndarray:
    """What tensor parallelism gives to a rank, written down by hand."""
    if name.endswith("norm.weight"):
        return whole
    axis = 1 if "o_proj" in name or "down_proj" in name else 0
    return np.ascontiguousarray(np.array_split(whole, PARTS, axis)[rank])


def sums(tensors: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    return {
        n: [str(v.dtype), list(v.shape), hashlib.sha256(v.tobytes()).hexdigest()] for n, v in tensors.items()
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of one layer as Hugging Face has it, 42 MB."""
    rng = np.random.default_rng(17)
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (WORDS, WIDTH),
        "lm_head.weight": (WORDS, WIDTH),
        "model.norm.weight": (WIDTH,),
        layer + "input_layernorm.weight": (WIDTH,),
        layer + "post_attention_layernorm.weight": (WIDTH,),
        layer + "self_attn.q_proj.weight": (WIDTH, WIDTH),
        layer + "self_attn.k_proj.weight": (WIDTH // 4, WIDTH),
        layer + "self_attn.v_proj.weight": (WIDTH // 4, WIDTH),
        layer + "self_attn.o_proj.weight": (WIDTH, WIDTH),
        layer + "mlp.gate_proj.weight": (INNER, WIDTH),
        layer + "mlp.up_proj.weight": (INNER, WIDTH),
        layer + "mlp.down_proj.weight": (WIDTH, INNER),
    }
    path = tmp_path_factory.mktemp("hf")
    save_file({n: rng.random(s, np.float32) for n, s in shapes.items()}, path / "model.safetensors")
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": WIDTH,
              "intermediate_size": INNER, "num_hidden_layers": 1, "num_attention_heads": 16,
              "num_key_value_heads": 4, "vocab_size": WORDS, "tie_word_embeddings": False}  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    return path


class Server:
    """Serves /N/PATH beneath the folder to process N, and counts what it sends. many: several ranges in one answer;
    otherwise the first of them alone, as the standard allows."""

    def __init__(self, folder: Path, many: bool) -> None:
        self.sent = [0] * PARTS
        self.requests = [0] * PARTS
        server = self
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

        class Ranges(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # a head and its body together

            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                _, process, path = self.path.split("/", 2)
                rank, data = int(process), memoryview(files.get(path, b""))
                if path not in files:
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                found = re.findall(r"(\d+)-(\d+)", self.headers.get("Range", ""))
                ranges = [(int(a), min(int(b) + 1, len(data))) for a, b in found]
                assert ranges, "a whole file was asked for"
                low, high = ranges[0]
                if many and len(ranges) > 1:
                    head = "\r\n--B\r\nContent-Range: bytes %d-%d/%d\r\n\r\n"
                    parts = [(head % (a, b - 1, len(data))).encode() + data[a:b] for a, b in ranges]
                    body = b"".join(parts) + b"\r\n--B--\r\n"
                    says = ("Content-Type", "multipart/byteranges; boundary=B")
                else:
                    body = bytes(data[low:high])
                    says = ("Content-Range", f"bytes {low}-{high - 1}/{len(data)}")
                self.send_response(206)
                self.send_header(*says)
                self.send_header("ETag", '"1"')
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                with lock:
                    server.sent[rank] += len(body)
                    server.requests[rank] += 1

        lock = threading.Lock()
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, rank: int, path: str = "model.safetensors") -> str:
        return f"http://127.0.0.1:{self.http.server_port}/{rank}/{path}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture(params=["many", "one"])
def server(request: pytest.FixtureRequest, model: Path) -> Iterator[tuple[Server, bool]]:
    found = Server(model, request.param == "many")
    yield found, request.param == "many"
    found.close()


def four(
    sources: list[str], model: Path, gap: int | None = None, source_layout: Path | None = None
) -> list[dict[str, Any]]:
    """load_part in four processes at once, as on four machines; each result is compared before it is given."""
    env = {k: v for k, v in os.environ.items() if k != "SFT_REMOTE_GAP"}
    if gap is not None:
        env["SFT_REMOTE_GAP"] = str(gap)
    config = str(model / "config.json")
    running = [
        subprocess.Popen([sys.executable, "-c", CHILD, source, LAYOUT, str(rank), config, source_layout or ""],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        for rank, source in enumerate(sources)
    ]  # fmt: skip
    results = []
    for rank, process in enumerate(running):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        results.append(json.loads(out))
        assert results[-1]["sums"] == sums({n: cut(n, v, rank) for n, v in whole(model).items()})
    return results


def whole(model: Path) -> dict[str, np.ndarray]:
    return load_file(model / "model.safetensors")


def columns(model: Path) -> int:
    """Bytes of each process's share that are cut by columns."""
    return sum(v.nbytes // PARTS for n, v in whole(model).items() if "o_proj" in n or "down_proj" in n)


def tell(what: str, rank: int, read: int, share: int, requests: int | None = None) -> None:
    asked = "" if requests is None else f" in {requests} requests"
    print(f"{what}, process {rank}: {read} bytes{asked} for {share}: {read / share:.3f}")


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="no /proc/self/io")
def test_a_directory_on_disk(model: Path) -> None:
    for rank, r in enumerate(four([str(model)] * PARTS, model)):
        tell("directory on disk", rank, r["read"], r["share"])
        assert r["share"] <= r["read"] < r["share"] + 256 * KIB  # gaps of 3 KiB and more are left out


@tool
@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="no /proc/self/io")
def test_ranks_of_another_strategy_on_disk(model: Path, tmp_path: Path) -> None:
    command = [os.environ["SFT_TOOL"], "reshard", "--target-layout", "tp=2", model, "-o", tmp_path / "ranks"]
    subprocess.run(command, check=True, capture_output=True)
    for rank, r in enumerate(four([str(tmp_path / "ranks")] * PARTS, model)):
        tell("ranks on disk", rank, r["read"], r["share"])
        # of each row of a half every second part is wanted, and the gaps, 1 and 2 KiB, are read over
        assert r["share"] <= r["read"] < r["share"] + columns(model) + 256 * KIB


@tool
@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("path", ["", "/rank_{rank}/model.safetensors"])
def test_ranks_of_another_strategy_behind_a_url(model: Path, path: str, many: bool, tmp_path: Path) -> None:
    command = [os.environ["SFT_TOOL"], "reshard", "--target-layout", "tp=2", model, "-o", tmp_path / "ranks"]
    subprocess.run(command, check=True, capture_output=True)
    found = Server(tmp_path, many)
    layout = tmp_path / "ranks" / "layout.json"
    sources = [found.url(process, f"ranks{path}") for process in range(PARTS)]
    for process, r in enumerate(four(sources, model, source_layout=layout)):
        read, share, requests = found.sent[process], r["share"], found.requests[process]
        kind = f"ranks behind a URL{path and ' with a pattern'}, {'many ranges' if many else 'one range'}"
        tell(kind, process, read, share, requests)
        between = 0 if many else columns(model)  # of each row of a half every second part is wanted
        assert share <= read < share * 1.03 + between + 256 * KIB
    found.close()


@tool
@pytest.mark.parametrize("many", [True, False])
def test_slices_of_ranks_behind_a_url_that_are_cast(model: Path, many: bool, tmp_path: Path) -> None:
    """Of halves that lie in two files each, and of two whole files."""
    truth = whole(model)
    for there in ("tp=2", "dp=2"):
        ranks = tmp_path / there
        command = [os.environ["SFT_TOOL"], "reshard", "--target-layout", there, model, "-o", ranks]
        subprocess.run(command, check=True, capture_output=True)
        found = Server(tmp_path, many)
        read = share = 0
        layout = tmp_path / "layout.json"
        command = [os.environ["SFT_TOOL"], "layout", "make", model, "--tp", str(PARTS), "-o", layout, "-f"]
        subprocess.run(command, check=True, capture_output=True)
        for rank in range(PARTS):
            out = tmp_path / f"{there}-{rank}.safetensors"
            command = [os.environ["SFT_TOOL"], "slice", found.url(rank, f"{there}"), "-o", out, "--source-layout",
                       ranks / "layout.json", "--layout", layout, "--rank", str(rank), "--cast", "F16"]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
            part = {n: cut(n, v, rank) for n, v in truth.items()}
            assert sums(load_file(out)) == sums({n: v.astype(np.float16) for n, v in part.items()})
            read, share = found.sent[rank], sum(v.nbytes for v in part.values())
            tell(
                f"slice of ranks behind a URL ({there}), F16, {'many ranges' if many else 'one'}",
                rank,
                read,
                share,
            )
            assert share <= read < share * 1.03 + (0 if many else 3 * columns(model)) + 512 * KIB
        found.close()


@pytest.mark.parametrize("gap", [None, 0])
def test_a_url(model: Path, server: tuple[Server, bool], gap: int | None) -> None:
    found, many = server
    results = four([found.url(rank) for rank in range(PARTS)], model, gap)
    for rank, r in enumerate(results):
        read, share, requests = found.sent[rank], r["share"], found.requests[rank]
        tell(f"URL, {'many ranges' if many else 'one range'}, gap {gap}", rank, read, share, requests)
        between = 0 if many or gap == 0 else 3 * columns(model)  # one range: gaps of 3 and 6 KiB come along
        assert share <= read < share * 1.03 + between + 128 * KIB
        assert requests < (2 * WIDTH + 200 if gap == 0 and not many else 100)


@tool
@pytest.mark.parametrize("cast", [None, np.float16, np.float64])
@pytest.mark.parametrize("gap", [None, 0])
def test_slice_of_a_url(
    model: Path, server: tuple[Server, bool], gap: int | None, cast: Any, tmp_path: Path
) -> None:
    found, many = server
    env = {k: v for k, v in os.environ.items() if k != "SFT_REMOTE_GAP"}
    if gap is not None:
        env["SFT_REMOTE_GAP"] = str(gap)
    for rank in range(PARTS):
        out = tmp_path / f"{rank}.safetensors"
        command = [os.environ["SFT_TOOL"], "slice", found.url(rank), "-o", out, "--layout", LAYOUT,
                   "--rank", str(rank), "--config", model / "config.json"]  # fmt: skip
        if cast is not None:
            command += ["--cast", "F16" if cast == np.float16 else "F64"]
        subprocess.run(command, check=True, capture_output=True, env=env)
        part = {n: cut(n, v, rank) for n, v in whole(model).items()}
        assert sums(load_file(out)) == sums({n: v.astype(cast or v.dtype) for n, v in part.items()})
        read, share = found.sent[rank], sum(v.nbytes for v in part.values())
        requests = found.requests[rank]
        tell(
            f"slice of a URL, {'many ranges' if many else 'one range'}, gap {gap}, {cast and cast.__name__}",
            rank,
            read,
            share,
            requests,
        )
        between = 0 if many or gap == 0 else 3 * columns(model)
        assert share <= read < share * 1.03 + between + 512 * KIB
        assert requests < (2 * WIDTH + 200 if gap == 0 and not many else 100)


@tool
def test_fetch_of_a_url_by_numbers(model: Path, server: tuple[Server, bool], tmp_path: Path) -> None:
    """The heads are those of config.json beside the file, there or here."""
    for i, more in enumerate(([], ["--config", model / "config.json"])):
        out = tmp_path / str(i)
        command = [
            os.environ["SFT_TOOL"],
            "fetch",
            server[0].url(1),
            "-o",
            out,
            "--layout",
            LAYOUT,
            "--rank",
            "1",
            *more,
        ]
        subprocess.run(command, check=True, capture_output=True)
        part = {n: cut(n, v, 1) for n, v in whole(model).items()}
        assert sums(load_file(out / "model.safetensors")) == sums(part)


def test_a_gap_that_is_no_number(model: Path, server: tuple[Server, bool]) -> None:
    env = dict(os.environ, SFT_REMOTE_GAP="64k")
    command = [sys.executable, "-c", CHILD, server[0].url(0), LAYOUT, "0", model / "config.json", ""]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 1 and "SFT_REMOTE_GAP is no number of bytes" in done.stderr
    assert server[0].requests[0] == 0


@pytest.mark.parametrize("between", [1, 100 * KIB, 1 << 20])
def test_tensors_of_a_url_with_others_between(tmp_path: Path, between: int) -> None:
    """Of two neighbours in memory the file's distance counts, and memory was counted for a smaller one."""
    one = np.arange(256, dtype=np.uint8)
    save_file({"a": one, "b": np.zeros(between, np.uint8), "c": one[::-1].copy()}, tmp_path / "m.safetensors")
    found = Server(tmp_path, True)
    from safetensors_c import safe_open

    with safe_open(found.url(0, "m.safetensors"), "numpy") as f:
        got = f.get_tensors(["a", "c"], owned=True)
    assert np.array_equal(got["a"], one) and np.array_equal(got["c"], one[::-1])
    found.close()
