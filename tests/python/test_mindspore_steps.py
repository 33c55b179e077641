# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The steps of a MindSpore job on the disk, without MindSpore: names, who was done, replicas, which steps stay."""

import itertools
import json
import os
import random
import subprocess
import sys

import pytest
from safetensors_c import _mindspore_steps as steps
from safetensors_c import distributed
from safetensors_c._mindspore_steps import Step
from safetensors_c.numpy import save_file

np = pytest.importorskip("numpy")


def put(directory, rank, step, prefix="net"):
    place = directory / f"rank_{rank}"
    place.mkdir(parents=True, exist_ok=True)
    save_file({"w": np.zeros(2)}, place / steps.file_name(prefix, rank, step))


@pytest.mark.skipif(os.name != "posix", reason="processes are asked for by signal 0")
def test_what_killed_writers_left_is_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    left, alive = (tmp_path / f"meta.json.{p.pid}.tmp" for p in (gone, other))
    kept = [alive, tmp_path / "meta.json.tmp", tmp_path / "meta.json.x.tmp", tmp_path / f"other.json.{gone.pid}.tmp",
            tmp_path / f"meta.json.{gone.pid}.tmp.bak", tmp_path / "meta.json.99999999999999999999.tmp"]  # fmt: skip
    for path in (left, *kept):
        path.write_text("{")
    try:
        steps.write_meta(str(tmp_path), Step(1, 2), "x", False)
    finally:
        other.kill()
        other.wait()
    assert not left.exists() and all(path.exists() for path in kept)
    assert steps.read_meta(str(tmp_path)) == Step(1, 2) and len(list(tmp_path.iterdir())) == 1 + len(kept)
    aside = tmp_path / f"meta.json.{gone.pid}.tmp"  # no file: left alone, and no fault
    aside.mkdir()
    steps.write_meta(str(tmp_path), Step(1, 3), "x", False)
    assert aside.is_dir()


HOLDER = """
import sys, time
from safetensors_c import _mindspore_steps as steps
lock = steps.Lock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="record locks are POSIX's")
def test_a_directory_is_one_savers(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        for _ in range(2):  # nor does the failure end the lock
            with pytest.raises(steps.Locked, match="another process saves in"):
                steps.Lock(str(tmp_path))
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    first = steps.Lock(str(tmp_path))  # what a kill left is none
    (tmp_path / "same").symlink_to(tmp_path)
    for same in (tmp_path, tmp_path / "same"):
        with pytest.raises(steps.Locked, match="another Saver of this process saves in"):
            steps.Lock(str(same))
    asked = "import sys; from safetensors_c import _mindspore_steps as s; s.Lock(sys.argv[1])"
    there = subprocess.run([sys.executable, "-c", asked, str(tmp_path)], capture_output=True, text=True)
    assert "another process saves in" in there.stderr  # it is still held
    pid = os.fork()
    if pid == 0:  # a child has no part in it
        try:
            steps.Lock(str(tmp_path))
        except steps.Locked as e:
            os._exit(0 if "another process" in str(e) else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    first.release()
    first.release()
    second = steps.Lock(str(tmp_path))
    first.release()
    with pytest.raises(steps.Locked):
        steps.Lock(str(tmp_path))
    del second  # nobody has it any more
    steps.Lock(str(tmp_path)).release()
    assert os.listdir(tmp_path) and (tmp_path / steps.LOCK).stat().st_size == 0
    put(tmp_path, 0, Step(1, 1))
    steps.Lock(str(tmp_path / "rank_0")).release()
    found = steps.Steps(str(tmp_path))
    assert found.paths(Step(1, 1)) == [str(tmp_path / "rank_0" / "net_rank_0-1_1.safetensors")]


def test_names_end_in_steps_that_are_numbers():
    assert (
        steps.step_of("net_rank_0-3_2.safetensors")
        == Step(3, 2)
        == steps.step_of("3_2")
        == steps.step_of("-3_2")
    )
    assert Step(10, 1) > Step(9, 9) and str(Step(1, 20)) == "1_20"
    for text in ("net.safetensors", "3", "", "3_2.safetensors.passed-over", "a-3_x"):
        with pytest.raises(ValueError, match="no step"):
            steps.step_of(text)


def test_a_step_is_whole_when_every_rank_was_done(tmp_path):
    for rank, step in itertools.product(range(2), (Step(1, 9), Step(1, 10), Step(2, 1))):
        put(tmp_path, rank, step)
    put(tmp_path, 0, Step(2, 2))
    steps.write_meta(str(tmp_path / "rank_0"), Step(2, 2), "x", False)
    steps.write_meta(str(tmp_path / "rank_1"), Step(1, 10), "x", False)
    there = steps.Steps(str(tmp_path))
    assert there.newest_first() == [Step(2, 2), Step(2, 1), Step(1, 10), Step(1, 9)]
    assert there.why_not(Step(2, 2), 2) == "rank 1 has no file of it"
    assert "meta.json of rank 1 is of 1_10" in there.why_not(Step(2, 1), 2)
    assert there.why_not(Step(1, 10), 2) is None
    assert "rank 2 has no file" in there.why_not(Step(1, 10), 3)
    assert "rank 1, and the layout is of 1" in there.why_not(Step(1, 10), 1)
    for broken in (
        "",
        "{}",
        "[1]",
        '{"last_epoch": null, "last_step": 1}',
        "[" * 100000,
        '{"last_epoch": 1e999, "last_step": 1}',
    ):
        (tmp_path / "rank_1" / "meta.json").write_text(broken)
        assert steps.Steps(str(tmp_path)).why_not(Step(2, 1), 2) is None
    put(tmp_path, 1, Step(2, 1), "other")
    assert "rank 1 has 2 files" in steps.Steps(str(tmp_path)).why_not(Step(2, 1), 2)


def test_what_was_whole_and_is_lost_is_no_new_training(tmp_path):
    """What a job leaves that was killed in its first step says nothing; each of four things does, and names the rank or step."""
    put(tmp_path / "a", 0, Step(1, 1))
    steps.write_meta(str(tmp_path / "a" / "rank_0"), Step(1, 1), "x", False)
    (tmp_path / "a" / "rank_1").mkdir()
    there = steps.Steps(str(tmp_path / "a"))
    assert there.lost(2) is None and steps.Steps(str(tmp_path / "none")).lost(2) is None
    assert there.lost(3) == "the directory rank_2 is gone"
    steps.write_meta(str(tmp_path / "a" / "rank_0"), Step(1, 1), "x", False, Step(1, 1))
    assert steps.Steps(str(tmp_path / "a")).lost(2) == "the meta.json of rank 0 says that 1_1 was whole"
    steps.write_meta(str(tmp_path / "a" / "rank_1"), Step(1, 2), "x", False, Step(0, 0))
    (tmp_path / "a" / "rank_0" / "meta.json").write_text('{"saver.whole": [1, 1]}')
    assert (
        steps.Steps(str(tmp_path / "a")).lost(2) == "the meta.json of rank 1 names 1_2, and no file is there"
    )
    put(tmp_path / "b", 0, Step(1, 1))
    put(tmp_path / "b", 0, Step(1, 2))
    (tmp_path / "b" / "rank_1").mkdir()
    assert steps.Steps(str(tmp_path / "b")).lost(2) == "1_2 was begun, and so 1_1 was whole"


def test_one_device_has_no_rank_directories(tmp_path):
    save_file({"w": np.zeros(2)}, tmp_path / "net-1_4.safetensors")
    there = steps.Steps(str(tmp_path))
    assert there.newest_first() == [Step(1, 4)] and there.why_not(Step(1, 4), 1) is None
    assert steps.Steps(str(tmp_path / "none")).files == {}


def held(layout, rank, shape, directory):
    """The bytes that a rank holds of numbers 0, 1, 2 ...: what open_part says, which is not how kept_by decides."""
    path = directory / "whole.safetensors"
    size = int(np.prod(shape))
    save_file({e["name"]: np.arange(size, dtype=np.int64).reshape(shape) for e in layout["tensors"]}, path)
    return {
        n: a.tobytes() for n, a in distributed.load_part(path, layout, rank, allow_replicated=True).items()
    }


def test_without_replicas_every_part_is_kept_once(tmp_path):
    """Random meshes, in one stage and in two: of the ranks that hold the same bytes of a tensor exactly one keeps it, and ranks
    keep numbers of tensors that differ by one at most where all are held by all."""
    rng = random.Random(7)
    for case in range(60):
        axes = {f"a{i}": rng.choice([1, 2, 3]) for i in range(rng.randint(1, 3))}
        devices = int(np.prod(list(axes.values())))
        stages = rng.choice([1, 2])
        meshes = {f"s{k}": {"axes": axes, "first_rank": k * devices} for k in range(stages)}
        tensors = []
        for i in range(rng.randint(1, 9)):
            free, cuts = list(axes), []
            for _ in range(2):
                rng.shuffle(free)
                mine = [free.pop() for _ in range(min(len(free), rng.choice([0, 1, 1, 2])))]
                cuts.append(mine[0] if len(mine) == 1 else mine or None)
            tensors.append({"name": f"t{i}", "mesh": f"s{rng.randrange(stages)}", "cuts": cuts})
        layout = {"format": "safetensors-layout", "version": 1, "meshes": meshes, "tensors": tensors}
        parts = [held(layout, rank, (36, 36), tmp_path) for rank in range(stages * devices)]
        kept = [steps.kept_by(layout, rank, parts[rank]) for rank in range(len(parts))]
        for name in {n for part in parts for n in part}:
            holders: dict = {}
            for rank, part in enumerate(parts):
                if name in part:
                    holders.setdefault(part[name], []).append(rank)
            for ranks in holders.values():
                assert sum(name in kept[r] for r in ranks) == 1, (case, name, ranks, layout)
        assert all(kept[r] <= set(parts[r]) for r in range(len(parts)))


def test_replicas_of_a_data_parallel_job_are_shared_out():
    layout = steps.replicated([f"w{i}" for i in range(10)], 4)
    kept = [steps.kept_by(layout, r, [f"w{i}" for i in range(10)] + ["epoch_num"]) for r in range(4)]
    assert [len(k) for k in kept] == [4, 4, 3, 3] and all("epoch_num" in k for k in kept)
    assert json.loads(distributed._core._read_layout(json.dumps(layout).encode(), None)[0])["tensors"]


def test_what_is_kept_is_what_a_slow_reading_says():
    """Against the rule said otherwise: going through the steps, one goes if it lies within the minutes of one that stays."""
    rng = random.Random(3)
    for _ in range(300):
        times, now = {}, 0.0
        for i in range(rng.randint(1, 12)):
            now += rng.choice([1, 30, 59, 60, 61, 200, 4000])
            times[Step(1 + i // 4, 1 + i % 4)] = now
        order = sorted(times)
        assert steps.kept_steps(times, 3, rng.choice([0, 1])) == order[-3:]
        assert steps.kept_steps(times, 0, 0) == order
        kept = set(steps.kept_steps(times, 0, 1))
        stays = [order[0]]
        for step in order[1:]:
            if all(abs(times[step] - times[s]) >= 60 for s in stays):
                stays.append(step)
        assert kept == {*stays, order[-1]}
