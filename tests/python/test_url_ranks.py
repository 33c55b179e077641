# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rank directories behind URLs, served by http.server: what is found there, compared with what lies on the disk; what is
missing, mixed or hostile. And stages of numbers of which no rank is there, on the disk too."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from safetensors.numpy import save_file
from safetensors_c import SafetensorError, distributed

STAGES = 2
LAYERS = 4
NUMBERS = f"dp=2,tp=1,pp={STAGES}"
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


def whole() -> dict[str, np.ndarray]:
    names = [f"model.layers.{i}.self_attn.o_proj.weight" for i in range(LAYERS)]
    names = ["model.embed_tokens.weight", *names, "model.norm.weight"]
    return {n: np.arange(8, dtype=np.float32).reshape(4, 2)[: None if "norm" not in n else 1] + 100 * i
            for i, n in enumerate(names)}  # fmt: skip


def of_stage(stage: int) -> dict[str, np.ndarray]:
    names = list(whole())
    half = len(names) // STAGES
    return {n: whole()[n] for n in names[stage * half : (stage + 1) * half]}


def file_of(rank: int, step: str, prefix: str = "net") -> str:
    return f"{prefix}_rank_{rank}-{step}.safetensors"


def write_ranks(folder: Path, prefix: str = "net") -> None:
    """Two stages of two replicas, steps 1_10 and 1_20; the values of 1_10 are doubled."""
    for rank in range(2 * STAGES):
        place = folder / f"rank_{rank}"
        place.mkdir(parents=True)
        for step, factor in (("1_10", 2), ("1_20", 1)):
            part = {n: v * np.float32(factor) for n, v in of_stage(rank // 2).items()}
            save_file(part, place / file_of(rank, step, prefix))
        newest = {"last_epoch": 1, "last_step": 20, "last_ckpt_file": file_of(rank, "1_20", prefix)}
        (place / "meta.json").write_text(json.dumps(newest))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_ranks(tmp_path / "ranks")
    return tmp_path / "ranks"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/ranks"
    server.shutdown()
    server.server_close()


def opened(path: Any, **how: Any) -> dict[str, np.ndarray]:
    with distributed.open_checkpoint(path, layout=NUMBERS, **how) as f:
        return f.get_tensors(None, owned=True)


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray], factor: int = 1) -> bool:
    return set(a) == set(b) and all(np.array_equal(a[n], b[n] * np.float32(factor)) for n in a)


def test_what_meta_json_names(folder: Path, url: str) -> None:
    assert same(opened(url), whole())
    assert same(opened(url, step="1_10"), whole(), 2)
    assert same(opened(url, step="-1_10"), whole(), 2)  # as resume-point says it
    assert same(opened(url + "/"), whole())


@pytest.mark.parametrize("prefix", ["模型", "a (b)&'c'", "a:b+c=d@e,~", "net-2"])
def test_names_that_a_url_escapes(tmp_path: Path, url: str, prefix: str) -> None:
    write_ranks(tmp_path / "ranks", prefix)
    assert same(opened(url), whole())
    assert same(opened(url, step="1_10"), whole(), 2)


def test_a_pattern(folder: Path, url: str) -> None:
    pattern = url + "/rank_{rank}/net_rank_{rank}-1_10.safetensors"
    assert same(opened(pattern), whole(), 2)
    part = distributed.load_part(pattern, "tp=2", 1, source_layout=NUMBERS, config=CONFIG)
    one = "model.layers.3.self_attn.o_proj.weight"
    assert np.array_equal(part[one], whole()[one][:, 1:] * 2)
    with pytest.raises(SafetensorError, match="no step"):
        opened(pattern, step="1_20")
    with pytest.raises(SafetensorError, match="a layout is needed"):
        distributed.open_checkpoint(pattern)


def test_load_part_of_a_step(folder: Path, url: str) -> None:
    for path in (url, folder):
        part = distributed.load_part(path, "tp=2", 0, source_layout=NUMBERS, step="1_10", config=CONFIG)
        one = "model.layers.0.self_attn.o_proj.weight"
        assert np.array_equal(part[one], whole()[one][:, :1] * 2)
    with distributed.open_checkpoint(folder, layout=NUMBERS) as f:
        with pytest.raises(ValueError, match="a handle has its own"):
            distributed.load_part(f, "tp=2", 0, step="1_10", config=CONFIG)


def test_plain_names_and_a_layout_beside(tmp_path: Path, url: str) -> None:
    rules = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"tp": 2}},
             "tensors": [{"name": "t", "cuts": ["tp"]}]}  # fmt: skip
    for rank in range(2):
        (tmp_path / "ranks" / f"rank_{rank}").mkdir(parents=True)
        part = {"t": np.arange(4, dtype=np.int32) + 4 * rank}
        save_file(part, tmp_path / "ranks" / f"rank_{rank}" / "model.safetensors")
    with pytest.raises(SafetensorError):
        distributed.open_checkpoint(url)  # a URL of one model, as ever
    with distributed.open_checkpoint(url, layout=rules) as f:
        assert f.get_tensor("t").tolist() == list(range(8))
    with pytest.raises(SafetensorError, match="no rank has a file"):
        distributed.open_checkpoint(url, step="1_20", layout=rules)
    with pytest.raises(SafetensorError, match="no layout.json"):
        distributed.open_checkpoint(url, step="1_20")


@pytest.mark.parametrize("behind", [True, False])
def test_ranks_that_are_missing(folder: Path, url: str, behind: bool) -> None:
    path = url if behind else folder
    shutil.rmtree(folder / "rank_3")  # rank 2 is its replica
    assert same(opened(path), whole())
    shutil.rmtree(folder / "rank_2")
    with pytest.raises(SafetensorError, match="ranks 2 to 3, all of pipeline stage 1, have no files") as e:
        opened(path)
    assert e.value.status == "SFT_E_HOLE"
    assert same(opened(path, partial=True), of_stage(0))


def test_steps_that_are_mixed(folder: Path, url: str) -> None:
    (folder / "rank_1" / "meta.json").write_text(json.dumps({"last_ckpt_file": file_of(1, "1_10")}))
    with pytest.raises(SafetensorError, match="different steps"):
        opened(url)
    assert same(opened(url, step="1_20"), whole())


@pytest.mark.parametrize("name", [
    "../rank_0/net_rank_0-1_20.safetensors", "/etc/passwd.safetensors", ".safetensors", "", "a.ckpt", 7, None,
    "a?b.safetensors", "a#b.safetensors", "%2e%2e%2fa.safetensors", "a\nb.safetensors", "a\\b.safetensors",
])  # fmt: skip
def test_names_that_are_none(folder: Path, url: str, name: Any) -> None:
    (folder / "rank_1" / "meta.json").write_text(json.dumps({"last_ckpt_file": name}))
    with pytest.raises(SafetensorError, match="names no file of safetensors"):
        opened(url)


@pytest.mark.parametrize("step", ["../x", "1_20/../x", "x", "1_", "1_20?", ""])
def test_steps_that_are_none(folder: Path, url: str, step: str) -> None:
    with pytest.raises(SafetensorError, match="is no step"):
        opened(url, step=step)


def test_many_are_asked_at_once(tmp_path: Path) -> None:
    """Up to 16, and no more than there may be; who serves nothing is not asked for each of thousands."""
    ranks, now, most, asked = 64, [0], [0], [0]
    files = {}
    for rank in range(ranks):
        part = {"model.layers.0.mlp.up_proj.weight": np.full((1, 2), rank, np.float32)}
        save_file(part, tmp_path / "one")
        files[f"/rank_{rank}/net_rank_{rank}-1_2.safetensors"] = (tmp_path / "one").read_bytes()
        files[f"/rank_{rank}/meta.json"] = json.dumps({"last_ckpt_file": file_of(rank, "1_2")}).encode()
    lock = threading.Lock()

    class Slow(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            with lock:
                now[0] += 1
                asked[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.005 if self.path in files else 0)
            with lock:
                now[0] -= 1
            data = files.get(self.path, b"")
            self.send_response(200 if data else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    for path in (base, base + "/rank_{rank}/net_rank_{rank}-1_2.safetensors"):
        most[0] = 0
        with distributed.open_checkpoint(path, layout=f"tp={ranks}") as f:
            got = f.get_tensors(None, owned=True)["model.layers.0.mlp.up_proj.weight"]
        assert np.array_equal(got[:, 0], np.arange(ranks)) and 4 <= most[0] <= 16
    for path in (base + "/none", base + "/none/{rank}"):
        asked[0] = 0
        with pytest.raises(SafetensorError, match="no rank has a file"):
            distributed.open_checkpoint(path, layout="tp=16384")
        assert asked[0] <= 2048
    asked[0] = 0
    with pytest.raises(SafetensorError, match="16385 ranks, at most 16384"):
        distributed.open_checkpoint(base, layout="tp=16385")
    assert asked[0] == 0
    server.shutdown()
    server.server_close()


def test_a_rank_alone(folder: Path) -> None:
    for rank in range(2 * STAGES):
        if rank != 2:
            shutil.rmtree(folder / f"rank_{rank}")
    with pytest.raises(SafetensorError, match="rank 2 is there alone"):
        distributed.open_checkpoint(folder)


@pytest.mark.parametrize("named", ["meta", "pattern", "plain"])
def test_a_layout_of_fewer_ranks(tmp_path: Path, url: str, named: str) -> None:
    """A rank behind those of the layout has a file: refused as on the disk, where it is listed."""
    ranks, part = tmp_path / "ranks", of_stage(0) | of_stage(1)
    for rank in range(4):
        place = ranks / f"rank_{rank}"
        place.mkdir(parents=True)
        save_file(part, place / ("model.safetensors" if named == "plain" else file_of(rank, "1_20")))
        if named == "meta":
            (place / "meta.json").write_text(json.dumps({"last_ckpt_file": file_of(rank, "1_20")}))
    path = url + "/rank_{rank}/net_rank_{rank}-1_20.safetensors" if named == "pattern" else url
    for count in (1, 2, 3):
        for where in (path, ranks):
            with pytest.raises(
                SafetensorError, match=rf"rank {count}, .* layout (is for|has) {count} ranks"
            ) as e:
                distributed.open_checkpoint(where, layout=f"dp={count}")
            assert e.value.status == "SFT_E_MISMATCH"
    with distributed.open_checkpoint(path, layout="dp=4") as f:
        assert same(f.get_tensors(None, owned=True), whole())
    # What is no file of a rank says nothing: a page for whatever is asked for, meta.json without its file.
    for rank in (2, 3):
        for file in (ranks / f"rank_{rank}").glob("*.safetensors"):
            file.write_text("<html>not found</html>") if rank == 2 else file.unlink()
    with distributed.open_checkpoint(path, layout="dp=2") as f:
        assert same(f.get_tensors(None, owned=True), whole())
    if named == "meta":
        (ranks / "rank_2" / "meta.json").write_text("<html>not found</html>")
        with distributed.open_checkpoint(path, layout="dp=2") as f:
            assert same(f.get_tensors(None, owned=True), whole())
