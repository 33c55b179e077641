# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checkpoints of many processes: torch.distributed jobs over gloo (1, 2 and 4 processes) save and load, each other's
and those of PyTorch's own distributed checkpoints; one failing process fails all; parts for numpy.

"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

import numpy as np
import pytest
import safetensors_c
import safetensors_c.numpy as with_numpy
from safetensors_c import SafetensorError, distributed, safe_open

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard  # noqa: E402

R = Replicate()
torch.set_num_threads(
    1
)  # processes are forked, so that torch is imported once; test_torchrun starts fresh ones


# ---------------------------------------------------------------- jobs


def meet(rank, size, place):
    """They meet at a file: a port that was free a moment ago may be another program's by now."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{place}/meeting")


def start(rank, size, place, directory, work, arguments):
    meet(rank, size, place)
    work(rank, size, directory, *arguments)
    dist.destroy_process_group()


def job(size, directory, work, *arguments):
    with tempfile.TemporaryDirectory() as place:
        mp.start_processes(
            start, (size, place, str(directory), work, arguments), nprocs=size, start_method="fork"
        )


SHAPES = {
    "even.weight": (torch.float32, (8, 12)),
    "uneven.weight": (torch.bfloat16, (10, 7)),
    "fewer.weight": (torch.float16, (3, 5)),
    "deep.weight": (torch.float64, (3, 5, 6)),
    "long.bias": (torch.int64, (1001,)),
    "flags": (torch.bool, (9,)),
    "f8": (torch.float8_e4m3fn, (6, 6)),
}


def truth():
    tensors = {}
    for i, (name, (dtype, shape)) in enumerate(SHAPES.items()):
        numbers = torch.arange(int(np.prod(shape))).reshape(shape)
        tensors[name] = (numbers % 2 if dtype == torch.bool else numbers % 240 - 7 * i).to(dtype)
    return tensors


def plain(step):
    """What every process holds in full."""
    return {"step": torch.tensor(step), "norm.weight": torch.arange(17, dtype=torch.float32)}


# Placements over meshes of one and two axes, of two tensors each in turn.
ONE = [[Shard(0)], [Shard(1)], [R], [Shard(-1)], [Shard(0)], [Shard(0)], [Shard(1)]]
TWO = [
    [Shard(0), Shard(1)],
    [Shard(0), Shard(0)],
    [R, Shard(1)],
    [Shard(2), Shard(0)],
    [Shard(0), R],
    [R, R],
    [Shard(1), Shard(1)],
]


def sharded(mesh, placements, fill=True):
    """DTensors with the true values, or with others."""
    from torch.distributed.tensor import distribute_tensor

    out = {}
    for (name, whole), where in zip(truth().items(), placements):
        out[name] = distribute_tensor(whole, mesh, where, src_data_rank=None)
        if not fill:
            with torch.no_grad():
                out[name].to_local().view(torch.uint8).fill_(1)
    return out


def same(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
    )


def meshes(size):
    out = [((size,), ONE)]
    if size == 4:
        out.append(((2, 2), TWO))
        out.append(((4, 1), TWO))
    return [(shape, [w if len(w) == len(shape) else w * 2 for w in where]) for shape, where in out]


def save_all(rank, size, directory):
    for i, (shape, placements) in enumerate(meshes(size)):
        state = {**sharded(init_device_mesh("cpu", shape), placements), **plain(i)}
        nested = {"model": state, "list": [torch.full((2, 2), 5.0)]}
        path = os.path.join(directory, f"{size}-{i}")
        result = distributed.save(nested, path, metadata={"k": "v"}, digests="crc32c", durable=False)
        everyone = [None] * size
        dist.all_gather_object(everyone, tuple(result))
        total = sum(t.nbytes for t in [*truth().values(), *plain(i).values()]) + 16
        assert sum(r[0] for r in everyone) == total, everyone  # every byte once
        files = sum(
            os.path.getsize(os.path.join(path, f)) for f in os.listdir(path) if f.endswith(".safetensors")
        )
        assert {r[2:] for r in everyone} == {(files, result.total_files)} and files > total
        if size > 1:
            assert max(r[0] for r in everyone) <= total / size + 8100, everyone


def load_all(rank, size, directory, saved):
    for path, step in saved:
        for shape, placements in meshes(size):
            mesh = init_device_mesh("cpu", shape)
            state = {**sharded(mesh, placements, fill=False), **{k: v * 0 for k, v in plain(0).items()}}
            before = {k: (v.to_local() if isinstance(v, DTensor) else v).data_ptr() for k, v in state.items()}
            result = distributed.load({"model": state}, os.path.join(directory, path))
            for name, whole in {**truth(), **plain(step)}.items():
                got = state[name]
                if isinstance(got, DTensor):
                    wanted = sharded_like(whole, got)
                    assert same(got.to_local(), wanted), (path, shape, name, got.to_local(), wanted)
                    got = got.to_local()
                else:
                    assert same(got, whole), (path, name)
                assert got.data_ptr() == before[name], name  # in place
            assert result.tensors <= len(state) and result.total_bytes > 0


def sharded_like(whole, dtensor):
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, dtensor.device_mesh, dtensor.placements, src_data_rank=None).to_local()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    for size in (1, 2, 4):
        job(size, directory, save_all)
    return directory


def every(saved):
    return sorted((name, int(name[-1])) for name in os.listdir(saved))


def test_what_is_saved(saved):
    assert [name for name, _ in every(saved)] == ["1-0", "2-0", "4-0", "4-1", "4-2"]
    for name, step in every(saved):
        with distributed.open_checkpoint(saved / name, "pt") as whole:
            wanted = {"model." + k: v for k, v in {**truth(), **plain(step)}.items()}
            wanted["list.0"] = torch.full((2, 2), 5.0)
            assert sorted(whole) == sorted(wanted)
            for k, v in wanted.items():
                assert same(whole.get_tensor(k), v), (name, k)
            assert whole.metadata()["k"] == "v"
    assert {f for f in os.listdir(saved / "2-0")} >= {"topology.json", "sft-checkpoint.json"}


@pytest.mark.parametrize("size", [1, 2, 4])
def test_load_by_others(saved, size):
    job(size, saved, load_nested, every(saved))


def load_nested(rank, size, directory, saved):
    load_all(rank, size, directory, saved)


def test_torchrun(saved, tmp_path):
    """The same by torch's own launcher, three processes."""
    script = (
        "import os, sys; sys.path.insert(0, %r); import torch; torch.set_num_threads(1); import torch.distributed as d\n"
        "import test_distributed as t\n"
        "d.init_process_group('gloo'); t.load_all(d.get_rank(), d.get_world_size(), %r, %r)\n"
        "open(os.path.join(%r, 'fine%%d' %% d.get_rank()), 'x').close(); d.barrier()\n"
        "os._exit(0)  # torch's own threads may abort the ends of processes\n"
        % (os.path.dirname(os.path.abspath(__file__)), str(saved), every(saved)[:3], str(tmp_path))
    )
    (tmp_path / "run.py").write_text(script)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "3",
            tmp_path / "run.py",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    # Files, not lines of output: three processes that share a pipe may write into one another's lines.
    assert sorted(path.name for path in tmp_path.glob("fine*")) == ["fine0", "fine1", "fine2"]


# ---------------------------------------------------------------- against PyTorch's own


def dcp_both(rank, size, directory, ours):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (2, 2))
    state = sharded(mesh, TWO)
    theirs = os.path.join(directory, "dcp")
    writer = HuggingFaceStorageWriter(
        theirs, save_distributed=True, fqn_to_index_mapping={k: 1 for k in state}
    )
    dcp.save(state, storage_writer=writer)
    other = init_device_mesh("cpu", (4,))
    mine, reference = sharded(other, ONE, fill=False), sharded(other, ONE, fill=False)
    distributed.load(mine, theirs)
    dcp.load(reference, storage_reader=HuggingFaceStorageReader(theirs))
    for name in state:
        assert same(mine[name].to_local(), reference[name].to_local()), name
    again = sharded(other, ONE, fill=False)
    mine = {"model." + k: v for k, v in again.items()}
    dcp.load(mine, storage_reader=HuggingFaceStorageReader(ours))
    for name in state:
        assert same(again[name].to_local(), reference[name].to_local()), name


def test_pytorch_reads_ours_and_we_theirs(saved, tmp_path):
    job(4, tmp_path, dcp_both, str(saved / "4-1"))


def strided(rank, size, directory):
    from torch.distributed.tensor.placement_types import _StridedShard

    mesh = init_device_mesh("cpu", (2, 2))
    for dim, rows in ((0, 8), (0, 10), (1, 12)):
        whole = torch.arange(rows * 24).reshape((rows, 24) if dim == 0 else (24, rows))
        # FSDP over tensor parallel: the second axis cuts first
        runs = [(0, whole.shape[dim])]
        where = [_StridedShard(dim, split_factor=2), Shard(dim)]
        for axis, placement in enumerate(where):
            runs = distributed._shard(runs, placement, 2, mesh.get_coordinate()[axis])
        part = torch.cat([whole.narrow(dim, a, n) for a, n in runs], dim)
        if rows % 4 == 0:
            theirs = torch.chunk(torch.chunk(whole, 2, dim)[rank % 2], 2, dim)[rank // 2]
            assert torch.equal(part, theirs)
        both = {"whole": whole.clone()}
        both["cut"] = DTensor.from_local(part.contiguous(), mesh, where, run_check=False, shape=whole.shape,
                                         stride=whole.stride())  # fmt: skip
        path = os.path.join(directory, f"strided-{dim}-{rows}")
        distributed.save(both, path, durable=False)
        with distributed.open_checkpoint(path, "pt") as f:
            assert torch.equal(f.get_tensor("cut"), whole) and torch.equal(f.get_tensor("whole"), whole)
        part.zero_()
        both["cut"].to_local().zero_()
        distributed.load({"cut": both["cut"]}, path)
        wanted = torch.cat([whole.narrow(dim, a, n) for a, n in runs], dim)
        assert torch.equal(both["cut"].to_local(), wanted)


def some(rank, size, directory):
    """A mesh of some of the processes, as a pipeline's stage has it; and a group of some."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import distribute_tensor

    whole = torch.arange(70).reshape(10, 7)
    meshes = [DeviceMesh("cpu", [0, 2]), DeviceMesh("cpu", [1, 3])]
    state = {
        f"stage{i}.w": distribute_tensor(whole + i, m, [Shard(i)], src_data_rank=None)
        for i, m in enumerate(meshes)
    }
    result = distributed.save(state, os.path.join(directory, "stages"), durable=False)
    assert result.tensors == 1  # of the two, this process holds one
    for i in range(2):
        state[f"stage{i}.w"].to_local().zero_()
    distributed.load(state, os.path.join(directory, "stages"))
    mine = f"stage{rank % 2}.w"
    assert torch.equal(state[mine].to_local(), torch.chunk(whole + rank % 2, 2, rank % 2)[rank // 2])
    with distributed.open_checkpoint(os.path.join(directory, "stages"), "pt") as f:
        assert sorted(f) == ["stage0.w", "stage1.w"]
        assert all(torch.equal(f.get_tensor(f"stage{i}.w"), whole + i) for i in range(2))
    groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    path = os.path.join(directory, f"group-{rank % 2}")
    distributed.save({"x": torch.full((5,), rank % 2)}, path, groups[rank % 2], durable=False)
    got = {"x": torch.zeros(5, dtype=torch.int64)}
    assert (
        distributed.load(got, path, groups[rank % 2]).total_bytes == 80
        and got["x"].tolist() == [rank % 2] * 5
    )
    raises(ValueError, lambda: distributed.save({}, path, groups[1 - rank % 2]), text="not of the group")


def test_strided_shards(tmp_path):
    job(4, tmp_path, strided)


def test_some_of_the_processes(tmp_path):
    job(4, tmp_path, some)


# ---------------------------------------------------------------- failures


def raises(kind, call, status=None, text=""):
    try:
        call()
    except kind as error:
        assert status is None or error.status == status, error
        assert text in str(error), error
        return
    raise AssertionError("nothing was raised")


def failures(rank, size, directory):
    mesh = init_device_mesh("cpu", (2,))
    state = sharded(mesh, ONE)
    path = os.path.join(directory, "never")
    # an entry that one process cannot save
    odd = {**state, **({"x": torch.zeros(2, dtype=torch.complex128)} if rank == 1 else {})}
    raises(
        ValueError if rank == 1 else SafetensorError, lambda: distributed.save(odd, path), text="complex128"
    )
    odd = {**state, **({"x": "text"} if rank == 1 else {})}
    raises(TypeError if rank == 1 else SafetensorError, lambda: distributed.save(odd, path), text="x is str")
    odd = {"x": torch.zeros(3 if rank == 1 else 2)}
    raises(SafetensorError, lambda: distributed.save(odd, path), "SFT_E_MISMATCH")
    odd = {"x": DTensor.from_local(torch.ones(2), mesh, [Partial()], run_check=False)}
    raises(ValueError, lambda: distributed.save(odd, path), text="P(sum)")

    def stop(done, total):
        if rank == 1:
            raise RuntimeError("enough")

    raises(
        (RuntimeError, SafetensorError, KeyboardInterrupt),
        lambda: distributed.save(state, path, progress=stop),
    )
    assert not os.path.exists(path)
    distributed.save(state, path, durable=False)
    raises(FileExistsError, lambda: distributed.save(state, path))
    # loading
    raises(FileNotFoundError, lambda: distributed.load(state, path + "-not"))
    missing = {**state, "more": torch.ones(2)}
    raises(SafetensorError, lambda: distributed.load(missing, path), "SFT_E_NOT_FOUND")
    distributed.load(missing, path, strict=False)
    assert missing["more"].tolist() == [1, 1]
    wrong = {"long.bias": torch.zeros(1000, dtype=torch.int64)} if rank == 0 else {}
    raises(SafetensorError, lambda: distributed.load(wrong, path), "SFT_E_SHAPE")
    other = {"even.weight": torch.zeros(8, 12, dtype=torch.float64)}
    raises(SafetensorError, lambda: distributed.load(other, path), "SFT_E_MISMATCH")
    distributed.load(other, path, cast=True)
    assert torch.equal(other["even.weight"], truth()["even.weight"].double())
    distributed.load(state if rank == 0 else {}, path)  # not everybody wants something
    os.unlink(
        os.path.join(path, sorted(f for f in os.listdir(path) if f.endswith(".safetensors"))[0])
    ) if rank == 0 else 0
    dist.barrier()
    raises(SafetensorError, lambda: distributed.load(state, path))


def test_one_process_fails(tmp_path):
    job(2, tmp_path, failures)


def killed(rank, size, place, directory):
    meet(rank, size, place)
    state = sharded(init_device_mesh("cpu", (2,)), ONE)

    def stop(done, total):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        distributed.save(state, os.path.join(directory, "x"), progress=stop)
    except Exception:  # whatever gloo makes of it
        os._exit(3)
    os._exit(0)


def test_one_process_is_killed(tmp_path):
    context = mp.get_context("fork")
    with tempfile.TemporaryDirectory() as place:
        processes = [context.Process(target=killed, args=(r, 2, place, str(tmp_path))) for r in range(2)]
        for p in processes:
            p.start()
        for p in processes:
            p.join(300)
    assert [p.exitcode for p in processes] == [3, -signal.SIGKILL]
    assert not os.path.exists(tmp_path / "x")
    distributed.save({"a": torch.ones(3)}, tmp_path / "x")  # what was left behind is no hindrance
    assert os.listdir(tmp_path) == ["x"]


# ---------------------------------------------------------------- without a group


def test_alone(tmp_path):
    shared = torch.arange(6.0)
    state = {
        "a": shared,
        "b": shared,
        "t": torch.arange(12.0).reshape(3, 4).t(),
        "n": {"e": torch.zeros(0, 3)},
    }
    assert distributed.save(state, tmp_path / "x", durable=False).bytes == 96
    into = torch.zeros(6)
    strided = torch.zeros(3, 4).t()
    got = {"a": into, "b": into, "t": strided, "n": {"e": torch.zeros(0, 3)}}
    result = distributed.load(got, tmp_path / "x")
    assert result == (96, 3, 96, 0)  # what is empty is not read
    assert torch.equal(into, shared) and torch.equal(strided, state["t"])
    for wrong, sentence in (
        ({"a": torch.zeros(5)}, "a: has another shape in the checkpoint than is asked for"),
        ({"a": torch.zeros(6, dtype=torch.float16)}, "a: is F32 in the checkpoint, and F16 is asked for"),
        ({"c": torch.zeros(6)}, "c: is not in the checkpoint"),
    ):
        with pytest.raises(SafetensorError, match=f"^{sentence}"):
            distributed.load(wrong, tmp_path / "x")
    with pytest.raises(ValueError, match="not initialised"):
        distributed.save(state, tmp_path / "y", group=object())
    with pytest.raises(TypeError, match="metadata"):
        distributed.save(state, tmp_path / "y", metadata={"a": 1})


def test_other_folders(tmp_path):
    whole = {"w": np.arange(40, dtype=np.float32).reshape(10, 4), "b": np.arange(5, dtype=np.int32)}
    with_numpy.save_file(whole, tmp_path / "model.safetensors")
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"x": 3}},
        "tensors": [{"name": "w", "cuts": [{"by": "x", "split": "chunk"}, None]}],
    }
    os.mkdir(tmp_path / "ranks")
    for rank, rows in enumerate((slice(0, 4), slice(4, 8), slice(8, 10))):
        os.mkdir(tmp_path / "ranks" / f"rank_{rank}")
        part = {"w": whole["w"][rows], "b": whole["b"]}
        with_numpy.save_file(part, tmp_path / "ranks" / f"rank_{rank}" / f"net_rank_{rank}-1_1.safetensors")
        got = distributed.load_part(tmp_path, layout, rank)
        assert all(np.array_equal(got[k], part[k]) for k in part) and len(got) == 2
    with pytest.raises(SafetensorError, match="layout"):
        distributed.open_checkpoint(tmp_path / "ranks")
    with distributed.open_checkpoint(tmp_path / "ranks", layout=layout, step="1_1") as f:
        assert sorted(f) == ["b", "w"] and np.array_equal(f.get_slice("w")[3:9, 1], whole["w"][3:9, 1])
        part = distributed.open_part(f, layout, 2)
    assert np.array_equal(part["w"], whole["w"][8:])  # the whole is closed
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    got = distributed.load_part(tmp_path / "model.safetensors", tmp_path / "layout.json", 1, ["w"])
    assert list(got) == ["w"] and np.array_equal(got["w"], whole["w"][4:8])
    state = {"w": torch.zeros(10, 4), "b": torch.zeros(5, dtype=torch.int32)}
    for path, kw in ((tmp_path, {}), (tmp_path / "ranks", {"layout": layout})):
        state["w"].zero_()
        distributed.load(state, path, **kw)
        assert np.array_equal(state["w"].numpy(), whole["w"])
        assert np.array_equal(state["b"].numpy(), whole["b"])


def bytes_read():
    """What this process has asked files for; None: this system does not say."""
    if not os.path.exists("/proc/self/io"):
        return None
    with open("/proc/self/io") as f:
        return int(next(line for line in f if line.startswith("rchar")).split()[1])


def rows_over(parts):
    cuts = {"rows": ["x", None], "columns": [None, "x"]}
    return {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": parts}},
            "tensors": [{"name": n, "cuts": c} for n, c in cuts.items()]}  # fmt: skip


@pytest.mark.skipif(bytes_read() is None, reason="no /proc/self/io")
def test_a_part_reads_only_its_bytes(tmp_path):
    whole = {n: np.random.default_rng(1).random((1024, 1024), np.float32) for n in ("rows", "columns")}
    with_numpy.save_file(whole, tmp_path / "model.safetensors")
    for rank in range(2):  # the same model, cut in two another way
        os.makedirs(tmp_path / "ranks" / f"rank_{rank}")
        half = np.s_[512 * rank : 512 * rank + 512]
        part = {"rows": whole["rows"][half].copy(), "columns": whole["columns"][:, half].copy()}
        with_numpy.save_file(part, tmp_path / "ranks" / f"rank_{rank}" / f"n_rank_{rank}.safetensors")
    (tmp_path / "ranks" / "layout.json").write_text(json.dumps(rows_over(2)))
    # of the ranks' files every second KiB of columns is wanted: gaps so small are read, too
    for source, gaps in (
        (tmp_path / "model.safetensors", 0),
        (tmp_path / "ranks", whole["rows"].nbytes // 4),
    ):
        for rank in range(4):
            before = bytes_read()
            got = distributed.load_part(source, rows_over(4), rank)
            read = bytes_read() - before
            mine = np.s_[256 * rank : 256 * rank + 256]
            assert np.array_equal(got["rows"], whole["rows"][mine])
            assert np.array_equal(got["columns"], whole["columns"][:, mine])
            share = sum(v.nbytes for v in got.values())
            assert share <= read < share + gaps + 65536, (source, rank, read, share)


def test_a_part_of_a_url_reads_only_its_ranges(tmp_path):
    whole = {n: np.random.default_rng(1).random((4096, 1024), np.float32) for n in ("rows", "columns")}
    with_numpy.save_file(whole, tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()
    sent = [0]

    class Ranges(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            low = int(wanted[1]) if wanted else 0
            high = min(int(wanted[2] or len(data)) + 1, len(data)) if wanted else len(data)
            found = self.path == "/model.safetensors"
            self.send_response(206 if wanted and found else 200 if found else 404)
            self.send_header("Content-Length", str(high - low if found else 0))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"1"')
            if wanted and found:
                self.send_header("Content-Range", f"bytes {low}-{high - 1}/{len(data)}")
            self.end_headers()
            if found and self.command == "GET":
                self.wfile.write(data[low:high])
                sent[0] += high - low

        do_HEAD = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/model.safetensors"
    script = (  # a process each, as on machines of their own: blocks that one has read are not the other's
        "import json, sys; from safetensors_c import distributed; import hashlib\n"
        "got = distributed.load_part(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), ['rows'])\n"
        "print(hashlib.sha256(got['rows'].tobytes()).hexdigest())\n"
    )
    for rank in range(4):
        sent[0] = 0
        argv = [sys.executable, "-c", script, url, json.dumps(rows_over(4)), str(rank)]
        r = subprocess.run(argv, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        part = whole["rows"][1024 * rank : 1024 * rank + 1024]
        assert r.stdout.strip() == hashlib.sha256(part.tobytes()).hexdigest()
        assert part.nbytes <= sent[0] < part.nbytes + (1 << 17), (rank, sent[0], part.nbytes)
    server.shutdown()
    server.server_close()


def test_coverage(tmp_path):
    """What the layout promises, not what the files happen to have."""
    layout = {"format": "safetensors-layout", "version": 1,
              "meshes": {"a": {"axes": {"x": 2}}, "b": {"axes": {"x": 2}, "first_rank": 2}},
              "tensors": [{"name": "first", "mesh": "a", "cuts": ["x"]}, {"name": "last", "mesh": "b", "cuts": ["x"]}]}  # fmt: skip
    for rank, name in enumerate(("first", "first", "last", "last")):
        os.mkdir(tmp_path / f"rank_{rank}")
        with_numpy.save_file(
            {name: np.arange(2) + 2 * (rank % 2)}, tmp_path / f"rank_{rank}" / f"q_rank_{rank}.safetensors"
        )
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    with distributed.open_checkpoint(tmp_path, partial=True) as f:
        assert sorted(f) == ["first", "last"] and f["last"].tolist() == [0, 1, 2, 3]
        assert distributed.left_out(f) == {}
    os.unlink(tmp_path / "rank_3" / "q_rank_3.safetensors")
    with pytest.raises(SafetensorError, match="rank 3's") as e:
        distributed.open_checkpoint(tmp_path)
    assert e.value.status == "SFT_E_HOLE" and e.value.tensor == "last"
    os.unlink(tmp_path / "rank_2" / "q_rank_2.safetensors")
    for call in (distributed.open_checkpoint, lambda p: distributed.load_part(p, layout, 0)):
        with pytest.raises(SafetensorError, match="ranks 2-3, which have no file") as e:
            call(tmp_path)
        assert e.value.status == "SFT_E_HOLE" and e.value.tensor == "last"
    with pytest.warns(UserWarning, match='"last" is left out'):
        whole = distributed.open_checkpoint(tmp_path, partial=True)
    assert list(whole) == ["first"] and list(distributed.left_out(whole)) == ["last"]
    with pytest.warns(UserWarning, match="last"):
        assert distributed.load_part(tmp_path, layout, 1, partial=True)["first"].tolist() == [2, 3]
    other = dict(layout, tensors=[{"name": "model.first", "mesh": "a", "cuts": ["x"]}])
    with pytest.raises(SafetensorError, match='"model.first", and the nearest name here is "first"') as e:
        distributed.load_part(whole, other, 0)
    assert e.value.status == "SFT_E_MISMATCH"
    assert distributed.load_part(whole, other, 0, allow_replicated=True)["first"].tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError):
        distributed.left_out("no handle")


def llama(layers=2, heads=4, kv=2, width=8):
    """Names and shapes of transformers' Llama, with values of their own."""
    rng = np.random.default_rng(3)
    shapes = {
        "model.embed_tokens.weight": (10, width),
        "model.norm.weight": (width,),
        "lm_head.weight": (10, width),
    }
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {at + f"self_attn.{n}_proj.weight": (width, width) for n in "qo"}
        shapes |= {at + f"self_attn.{n}_proj.weight": (width * kv // heads, width) for n in "kv"}
        shapes |= {at + f"mlp.{n}_proj.weight": (12, width) for n in ("gate", "up")}
        shapes |= {at + "mlp.down_proj.weight": (width, 12), at + "input_layernorm.weight": (width,)}
        shapes |= {at + "post_attention_layernorm.weight": (width,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_other_names(tmp_path):
    given = llama()
    with_numpy.save_file(given, tmp_path / "model.safetensors")
    numbers = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8, "intermediate_size": 12}
    (tmp_path / "config.json").write_text(json.dumps(numbers))
    os.mkdir(tmp_path / "ms")
    with distributed.open_checkpoint(tmp_path, names="llama-mindformers") as f:
        names = list(f)
        wq = f["model.layers.0.attention.wq.weight"]
        assert np.array_equal(wq, given["model.layers.0.self_attn.q_proj.weight"])
        assert len(names) == len(given) and not any("self_attn" in name for name in names)
        with_numpy.save_file({name: f[name] for name in names}, tmp_path / "ms" / "x.safetensors")
    with distributed.open_checkpoint(
        tmp_path / "ms" / "x.safetensors", names="llama-mindformers", reverse=True
    ) as f:
        assert sorted(f) == sorted(given) and all(np.array_equal(f[n], given[n]) for n in given)
    with distributed.open_checkpoint(tmp_path, names="llama-mindformers-fused") as f:  # config.json beside it
        fused = f["model.layers.1.attention.w_qkv.weight"]
        assert fused.shape == (16, 8) and not any(".wq." in name for name in f)
        back = distributed.renamed(
            f, "llama-mindformers-fused", reverse=True, config=tmp_path / "config.json"
        )
    assert all(np.array_equal(back[n], given[n]) for n in given)
    # a layout of one framework cuts a model of another, and one tensor is read
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"x": 2}},
        "tensors": [{"name": "model.layers.0.attention.wq.weight", "cuts": ["x", None]}],
    }
    got = distributed.load_part(
        tmp_path / "model.safetensors",
        layout,
        1,
        ["model.layers.0.attention.wq.weight"],
        names="llama-mindformers",
    )
    assert np.array_equal(got["model.layers.0.attention.wq.weight"], wq[4:])
    mine = {"format": "safetensors.names/1", "rules": [{"from": "lm_head.{p*}", "to": "head.{p*}"}]}
    (tmp_path / "rules.json").write_text(json.dumps(mine))
    for rules in (mine, tmp_path / "rules.json", str(tmp_path / "rules.json")):
        with distributed.open_checkpoint(tmp_path / "model.safetensors", names=rules) as f:
            assert "head.weight" in f and "model.norm.weight" in f


def test_other_names_of_load_file_and_open_part(tmp_path):
    given = llama()
    file = tmp_path / "model.safetensors"
    with_numpy.save_file(given, file, metadata={"format": "pt", "k": "v"}, digests="crc32c")
    numbers = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8, "intermediate_size": 12}
    (tmp_path / "config.json").write_text(json.dumps(numbers))
    wq, q = "model.layers.0.attention.wq.weight", "model.layers.0.self_attn.q_proj.weight"
    for backend in ("mmap", "pread"):
        told: list = []
        got, metadata = with_numpy.load_file(
            file, names="llama-mindformers", backend=backend, verify=True, with_metadata=True,
            progress=lambda done, total: told.append((done, total)),
        )  # fmt: skip
        assert len(got) == len(given) and np.array_equal(got[wq], given[q]) and q not in got
        assert metadata["format"] == "ms" and metadata["k"] == "v"
        size = sum(v.nbytes for v in given.values())
        assert told[0] == (0, size) and told[-1] == (size, size)
    fused = with_numpy.load_file(file, names="llama-mindformers-fused")  # config.json is beside the file
    w = fused["model.layers.1.attention.w_qkv.weight"]
    assert w.shape == (16, 8)
    other = dict(numbers, num_key_value_heads=3)
    with pytest.raises(SafetensorError):
        with_numpy.load_file(file, names="llama-mindformers-fused", config=other)
    with_numpy.save_file(fused, tmp_path / "fused.safetensors")
    back = with_numpy.load_file(tmp_path / "fused.safetensors", names="llama-mindformers-fused", reverse=True)
    assert sorted(back) == sorted(given) and all(np.array_equal(back[n], given[n]) for n in given)
    one = with_numpy.load_file(
        file, names="llama-mindformers", select=[wq], rename={wq: "w"}, dtype=np.float16
    )
    assert list(one) == ["w"] and one["w"].dtype == np.float16
    same = with_numpy.load_file(file.read_bytes(), names="llama-mindformers")
    assert np.array_equal(same[wq], given[q])
    for names, truth in (("llama-mindformers", None), ("llama-mindformers-fused", fused)):
        safetensors_c.convert(file, tmp_path / "c.safetensors", names=names, replace=True)
        told = with_numpy.load_file(tmp_path / "c.safetensors")
        truth = truth or with_numpy.load_file(file, names=names)
        assert sorted(told) == sorted(truth) and all(np.array_equal(told[n], truth[n]) for n in told)
    back = tmp_path / "back.npz"
    safetensors_c.convert(tmp_path / "c.safetensors", back, names=names, reverse=True, config=numbers)
    with np.load(back) as f:
        assert sorted(f) == sorted(given) and all(np.array_equal(f[n], given[n]) for n in given)
    from safetensors_c.torch import load_file as load_torch

    with_torch = load_torch(file, names="llama-mindformers")
    assert torch.equal(with_torch[wq], torch.from_numpy(given[q]))
    layout = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2}},
              "tensors": [{"name": wq, "cuts": ["x", None]}]}  # fmt: skip
    with distributed.open_checkpoint(file) as whole:
        with distributed.open_part(whole, layout, 1, names="llama-mindformers") as part:
            assert np.array_equal(part[wq], given[q][4:])
        with pytest.raises(SafetensorError, match="nearest"):
            distributed.open_part(whole, layout, 1)


def test_a_part_of_ranks_that_are_not_all_there(tmp_path):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "checkpoint"))
    import random

    from lacking import cases

    seed, seen = random.randrange(1 << 30), set()
    for place, source, target, rank, part, lost in cases(tmp_path, random.Random(seed), 25):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            got = distributed.load_part(place, target, rank, source_layout=source, partial=True)
        assert set(got) == set(part) and all(np.array_equal(got[n], part[n]) for n in part), (seed, place)
        assert len(told) == len(lost) and all(w.filename == __file__ for w in told), (seed, place)
        assert {str(w.message).split('"')[1] for w in told} == lost, (seed, place)
        if lost:
            with pytest.raises(SafetensorError, match="no file holds"):
                distributed.load_part(place, target, rank, source_layout=source)
        seen.add((bool(part), bool(lost)))
    assert (True, True) in seen and (True, False) in seen, (seed, seen)


def test_texts_of_ckpt_ranks_are_named_once(tmp_path):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "checkpoint"))
    from rank_files import ckpt_value

    layout = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2}},
              "tensors": [{"name": "w", "cuts": ["x"]}]}  # fmt: skip
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    w = np.arange(8, dtype=np.float32)
    for rank in range(2):
        (tmp_path / "job" / f"rank_{rank}").mkdir(parents=True)
        (tmp_path / "job" / f"rank_{rank}" / f"net_rank_{rank}-1_2.ckpt").write_bytes(
            ckpt_value("w", "Float32", [4], w[4 * rank : 4 * rank + 4].tobytes())
            + ckpt_value("note", "str", [0], b"hello")
            + (ckpt_value("last", "str", [0], b"hello") if rank == 1 else b"")
        )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with distributed.open_checkpoint(tmp_path / "job", layout=tmp_path / "layout.json") as whole:
            assert np.array_equal(whole["w"], w)
    assert len(told) == 2, [str(t.message) for t in told]
    assert "net_rank_0-1_2.ckpt: left out: note" in str(told[0].message)
    assert "net_rank_1-1_2.ckpt: left out: last" in str(told[1].message)


def test_other_names_that_do_not_fit(tmp_path):
    given = llama()
    with_numpy.save_file(given, tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError) as e:
        distributed.open_checkpoint(tmp_path / "model.safetensors", names="no-such-rules")
    assert "nearest" not in str(e.value) and e.value.filename == "no-such-rules"
    with pytest.raises(
        FileNotFoundError, match="the nearest are qwen2-mindformers: 'qwen9-mindformers'"
    ) as e:
        distributed.open_checkpoint(tmp_path / "model.safetensors", names="qwen9-mindformers")
    assert e.value.filename == "qwen9-mindformers"
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    with pytest.raises(SafetensorError, match="num_key_value_heads") as e:
        distributed.open_checkpoint(tmp_path, names={
            "format": "safetensors.names/1",
            "rules": [{"from": ["model.layers.{i}.mlp.gate_proj.weight", "model.layers.{i}.mlp.up_proj.weight"],
                       "to": "f.{i}", "groups": "num_key_value_heads"}]})  # fmt: skip
    assert e.value.status == "SFT_E_NOT_FOUND"
    with pytest.raises(SafetensorError):
        distributed.open_checkpoint(tmp_path, names={"format": "safetensors.names/1", "rules": [{"from": 3}]})
    del given["model.layers.1.self_attn.k_proj.weight"]
    with_numpy.save_file(given, tmp_path / "model.safetensors")
    with pytest.raises(SafetensorError, match="model.layers.1.self_attn.k_proj.weight"):
        distributed.open_checkpoint(tmp_path, names="llama-mindformers-fused", config={"num_attention_heads": 4, "num_key_value_heads": 2,
                                                               "intermediate_size": 12})  # fmt: skip
    with pytest.raises(ValueError, match="left_out"):
        distributed.open_checkpoint(tmp_path, partial=True, names="llama-mindformers")
    with pytest.raises(TypeError):
        distributed.renamed("no handle", "llama-mindformers")


def test_handles_and_errors(tmp_path):
    import pickle

    with_numpy.save_file({"a": np.arange(4)}, tmp_path / "model.safetensors")
    whole = distributed.open_checkpoint(str(tmp_path))
    with pytest.raises(TypeError, match="checkpoint cannot be pickled"):
        pickle.dumps(whole)
    assert repr(str(tmp_path)) in repr(whole)
    with pytest.raises(SafetensorError) as e:
        distributed.open_part(whole, {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 3}},
                                      "tensors": [{"name": "a", "cuts": ["x"]}]}, 0)  # fmt: skip
    assert e.value.status == "SFT_E_SHAPE" and e.value.tensor == "a"
    with pytest.raises(SafetensorError, match="layout"):
        distributed.open_part(whole, {}, 0)
    with pytest.raises(FileNotFoundError):
        distributed.open_part(whole, tmp_path / "none.json", 0)
    with pytest.raises(FileNotFoundError):
        distributed.open_checkpoint(tmp_path / "none")
    with pytest.raises(SafetensorError, match="URL"):
        distributed.open_checkpoint("https://localhost/rank_{rank}.safetensors", layout="tp=2", step="3_2")
    with pytest.raises(SafetensorError):
        distributed.open_checkpoint(tmp_path, "no framework")
    whole.close()
    with pytest.raises(SafetensorError, match="closed"):
        distributed.open_part(whole, {"format": "safetensors-layout", "version": 1, "tensors": []}, 0)
    with safe_open(tmp_path / "model.safetensors", "np") as f:
        layout = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2}},
                  "tensors": [{"name": "a", "placements": "Shard(0)"}]}  # fmt: skip
        assert distributed.load_part(f, layout, 1)["a"].tolist() == [2, 3]


def a_small_llama(tmp_path, **config):
    """8 heads, 4 of keys; rows of q are 0, 1, 2 ... of one column."""
    names = {"model.embed_tokens.weight": 16, "model.norm.weight": 16, "lm_head.weight": 16}
    for layer in range(2):
        names.update(
            {f"model.layers.{layer}.self_attn.{n}_proj.weight": 32 if n == "q" else 16 for n in "qkv"}
        )
    with_numpy.save_file(
        {
            n: np.arange(rows, dtype=np.float32).reshape((rows,) if "norm" in n else (rows, 1))
            for n, rows in names.items()
        },
        tmp_path / "model.safetensors",
    )
    numbers = {"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, **config}
    (tmp_path / "config.json").write_text(json.dumps(numbers))
    return tmp_path


def test_numbers_alone_are_a_layout(tmp_path):
    model = a_small_llama(tmp_path)
    part = distributed.load_part(model, "dp=2,tp=2,pp=2", 5)  # stage 1, d 0, t 1
    q = "model.layers.1.self_attn.q_proj.weight"
    assert sorted(n for n in part if "layers" in n) == [q.replace("q_proj", f"{n}_proj") for n in "kqv"]
    assert part[q][:, 0].tolist() == list(range(16, 32))
    assert part["lm_head.weight"].shape == (8, 1) and part["model.norm.weight"].shape == (16,)
    assert "model.embed_tokens.weight" not in part
    with distributed.open_checkpoint(model) as whole:
        handle = distributed.open_part(whole, "tp=4,vocab-parallel=no", 3, config={"num_attention_heads": 4})
        assert handle.get_tensor(q)[:, 0].tolist() == list(range(24, 32))
        assert handle.get_tensor("lm_head.weight").shape == (16, 1)
        with pytest.raises(SafetensorError, match="4 heads of keys and values .* tp 8") as e:
            distributed.open_part(whole, "tp=8,vocab-parallel=no", 0)
        assert e.value.status == "SFT_E_SHAPE" and e.value.tensor == "model.layers.0.self_attn.k_proj.weight"
    with pytest.raises(SafetensorError, match="2 layers among pp 3"):
        distributed.load_part(model, "pp=3", 0)
    for rank in range(4):
        (tmp_path / f"rank_{rank}").mkdir()
        with_numpy.save_file(
            distributed.load_part(tmp_path / "model.safetensors", "tp=2,pp=2", rank),
            tmp_path / f"rank_{rank}" / "model.safetensors",
        )
    (tmp_path / "model.safetensors").rename(tmp_path / "config.safetensors.kept")
    want = with_numpy.load_file(tmp_path / "config.safetensors.kept")
    with distributed.open_checkpoint(tmp_path, layout="tp=2,pp=2") as joined:
        assert set(joined.keys()) == set(want)
        assert all(np.array_equal(joined.get_tensor(n), t) for n, t in want.items())


def test_numbers_of_ranks_take_the_heads_of_config(tmp_path):
    """Queries, keys and values in one tensor, cut by hand: who has how many heads, config= says, or a file beside the ranks."""
    name, queries, keys = "model.layers.0.self_attn.qkv_proj.weight", 4, 2
    parts = [
        np.random.default_rng(i).random((n * 8, 32), np.float32) for i, n in enumerate((queries, keys, keys))
    ]
    for rank in range(2):
        (tmp_path / f"rank_{rank}").mkdir()
        mine = np.concatenate([np.split(part, 2)[rank] for part in parts])
        with_numpy.save_file({name: mine}, tmp_path / f"rank_{rank}" / "model.safetensors")
    config = {"hidden_size": 32, "num_attention_heads": queries, "num_key_value_heads": keys, "head_dim": 8}
    with pytest.raises(SafetensorError, match="num_attention_heads is not known"):
        distributed.open_checkpoint(tmp_path, layout="tp=2")
    (tmp_path / "config.json").write_text(json.dumps({**config, "hidden_size": 64}))
    with pytest.raises(SafetensorError, match=f"tensor `{name}`: .*hidden_size"):
        distributed.open_checkpoint(tmp_path, layout="tp=2")
    with distributed.open_checkpoint(tmp_path, layout="tp=2", config=config) as f:
        assert np.array_equal(f.get_tensor(name), np.concatenate(parts))
    got = distributed.load_part(tmp_path, "tp=1", 0, source_layout="tp=2", config=config)
    assert np.array_equal(got[name], np.concatenate(parts))


def test_numbers_of_ranks_that_are_gone(tmp_path):
    """A whole stage is not there: its layers are warned of where config.json counts them, and nothing is taken for another's."""
    held = {f"model.layers.{i}.input_layernorm.weight": np.full(4, i, np.float32) for i in range(2)}
    held["model.embed_tokens.weight"] = np.ones((8, 4), np.float32)
    (tmp_path / "rank_0").mkdir()
    with_numpy.save_file(held, tmp_path / "rank_0" / "model.safetensors")
    with pytest.raises(SafetensorError, match="how many layers the model has is not known") as e:
        distributed.load_part(tmp_path, "pp=2", 0, source_layout="pp=2", partial=True)
    assert e.value.status == "SFT_E_NOT_FOUND"
    config = {"num_hidden_layers": 4, "tie_word_embeddings": False}
    for rank, want in ((0, set(held)), (1, set())):
        with pytest.warns(UserWarning) as told:
            got = distributed.load_part(
                tmp_path, "pp=2", rank, source_layout="pp=2", partial=True, config=config
            )
        assert set(got) == want and all(np.array_equal(got[n], held[n]) for n in got)
        said = [str(w.message) for w in told]
        assert [sum(f"model.layers.{i}." in w for w in said) for i in range(4)] == [0, 0, 1, 1], said
        assert any("all of pipeline stage 1" in w for w in said)


def test_numbers_do_not_say_how_other_names_are_cut(tmp_path):
    with_numpy.save_file({"a.weight": np.zeros((4, 4)), "step": np.zeros(1)}, tmp_path / "m.safetensors")
    with pytest.raises(SafetensorError, match='no rule says how "a.weight" ') as e:
        distributed.load_part(tmp_path / "m.safetensors", "dp=2,tp=2", 0)
    assert e.value.status == "SFT_E_NOT_FOUND"


def test_no_torch(tmp_path):
    with_numpy.save_file({"a": np.arange(4)}, tmp_path / "model.safetensors")
    code = (
        "import sys, safetensors_c.distributed as d\n"
        "print(d.open_checkpoint(sys.argv[1])['a'].tolist(), 'torch' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert run.stdout.strip() == "[0, 1, 2, 3] False", run.stderr
