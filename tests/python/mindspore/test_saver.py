# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.mindspore.Saver with MindSpore itself: trainings of one, two and four processes (msrun, CPU), each killed and gone on
from; the losses are those of a training that was not killed, bit for bit. What lies on the disk is read by MindSpore and by the
reference package. Steps that are damaged, torn or another's."""

import functools
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
import saver_job
from mindspore import nn
from safetensors.numpy import load_file
from safetensors_c import SafetensorError, distributed
from safetensors_c import _mindspore_saver as module
from safetensors_c.mindspore import Resumed, Saver

JOB = saver_job.__file__


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(place, fails=False, **told):
    """One job, in its directory, to its end or until it kills itself; what its processes said."""
    place.mkdir(exist_ok=True)
    arguments = place / "told.json"
    arguments.write_text(json.dumps({"directory": "ck", "epochs": 3, "ranks": 1, "tp": 1, **told}))
    command = [sys.executable, JOB, str(arguments)]
    if told.get("ranks", 1) > 1:
        n = str(told["ranks"])
        shutil.rmtree(place / "log", ignore_errors=True)
        command = [sys.executable, "-m", "mindspore.parallel.cluster.run", "--worker_num", n, "--local_worker_num", n, "--join", "True",
                   "--master_port", str(free_port()), "--log_dir", "log", *command[1:]]  # fmt: skip
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    r = subprocess.run(command, cwd=place, env={**os.environ, "PATH": path, "GLOG_v": "3"}, text=True, timeout=300,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    logs = "".join(p.read_text(errors="replace") for p in sorted(place.glob("log/worker_*.log")))
    killed = "kill" in told or fails
    assert (r.returncode != 0) == killed, r.stdout[-3000:] + logs[-6000:]
    if "kill" in told:  # it came to where it kills itself
        victim = (place / f"losses.{told.get('victim', 0)}").read_text().splitlines()
        assert victim[-1].startswith("%d_%d " % tuple(told["kill"])), logs[-6000:]
    return r.stdout + logs


def losses(place, rank=0):
    """Of every step the last one told."""
    return dict(line.split() for line in (place / f"losses.{rank}").read_text().splitlines())


def resumed(place, rank=0):
    return [line.split()[0] for line in (place / f"resumed.{rank}").read_text().splitlines()]


def steps_on_disk(place, rank=0):
    return sorted(f.name for f in (place / "ck" / f"rank_{rank}").glob("*.safetensors"))


@functools.lru_cache(maxsize=None)
def _never_killed(base, how, ranks, tp):
    place = base / f"{how}-{ranks}-{tp}"
    run(place, how=how, ranks=ranks, tp=tp)
    return [losses(place, rank) for rank in range(ranks)]


@pytest.fixture(scope="session")
def never_killed(tmp_path_factory):
    base = tmp_path_factory.mktemp("whole")
    return lambda how, ranks=1, tp=1: _never_killed(base, how, ranks, tp)


# ---------------------------------------------------------------- trainings

OPTIONS = [
    {"save_checkpoint_steps": 2, "keep_checkpoint_max": 2},
    {"async_save": True, "crc_check": True, "append_info": ["epoch_num", "step_num", {"rate": 0.25}]},
    {
        "save_checkpoint_steps": 3,
        "keep_checkpoint_max": 0,
        "keep_checkpoint_per_n_minutes": 1,
        "durable": False,
    },
]


@pytest.mark.parametrize("options", OPTIONS)
def test_one_process_by_model_train(tmp_path, never_killed, options):
    """Killed within an epoch, and again at its end."""
    whole = never_killed("by_model")[0]
    told = {"how": "by_model", "saver": options}
    run(tmp_path, kill=[2, 4], **told)
    run(tmp_path, kill=[3, 1], **told)
    run(tmp_path, **told)
    assert losses(tmp_path) == whole
    steps = resumed(tmp_path)
    assert steps[0] == "0_0" and steps[1] in ("1_12", "2_1", "2_2", "2_3") and steps[2].startswith("2_"), (
        steps
    )
    if "keep_checkpoint_max" in options and options["keep_checkpoint_max"]:
        assert len(steps_on_disk(tmp_path)) == options["keep_checkpoint_max"]


def test_one_process_is_killed_at_every_step(tmp_path, never_killed):
    whole = never_killed("by_hand")[0]
    for i, (epoch, step) in enumerate(itertools.product((1, 2, 3), range(1, 7))):
        run(
            tmp_path,
            how="by_hand",
            kill=[epoch, step],
            saver={"async_save": i % 2 == 0, "keep_checkpoint_max": 2},
        )
    run(tmp_path, how="by_hand", saver={"keep_checkpoint_max": 2})
    assert losses(tmp_path) == whole
    assert steps_on_disk(tmp_path) == ["job_rank_0-3_5.safetensors", "job_rank_0-3_6.safetensors"]
    assert os.listdir(tmp_path / "ck") == ["rank_0"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_data_parallel_processes(tmp_path, never_killed, ranks):
    """Without replicas, with MindSpore's checksum; rank 1 is killed, and msrun ends the others."""
    whole = never_killed("by_model", ranks)
    per_epoch = saver_job.ROWS // 4 // ranks
    saver = {
        "save_checkpoint_steps": per_epoch,
        "remove_redundancy": True,
        "crc_check": True,
        "append_info": ["epoch_num"],
    }
    told = {
        "how": "by_model",
        "ranks": ranks,
        "saver": {**saver, "async_save": ranks == 4, "keep_checkpoint_max": 2},
    }
    run(tmp_path, kill=[3, 1], victim=1, **told)
    run(tmp_path, **told)
    for rank in range(ranks):
        assert losses(tmp_path, rank) == whole[rank]
        assert resumed(tmp_path, rank) == ["0_0", "2_%d" % per_epoch]
        assert steps_on_disk(tmp_path, rank) == [
            f"job_rank_{rank}-{e}_{per_epoch}.safetensors" for e in (2, 3)
        ]
    # The reference reads them, MindSpore checks its own number, and every parameter is there once.
    seen = {}
    for rank in range(ranks):
        path = tmp_path / "ck" / f"rank_{rank}" / f"job_rank_{rank}-3_{per_epoch}.safetensors"
        for name, array in load_file(path).items():
            assert name == "epoch_num" or name not in seen, name
            seen[name] = array
        found = ms.load_checkpoint(str(path), format="safetensors", crc_check=True, remove_redundancy=True)
        assert set(found) == set(load_file(path)) and int(found["epoch_num"].asnumpy()) == 3
    state = json.loads((tmp_path / "state.0").read_text())
    assert set(seen) == {*state, "epoch_num"}
    tool(tmp_path, "resume-point", "ck", says=f"3_{per_epoch}")


def tool(place, *arguments, says):
    found = os.environ.get("SFT_TOOL")
    if found is None:
        pytest.skip("SFT_TOOL does not name the tool")
    r = subprocess.run([found, *arguments], cwd=place, capture_output=True, text=True)
    assert r.returncode == 0 and says in r.stdout, r.stdout + r.stderr


def whole_of(place, step, ranks, tp):
    """A step as one model, put together from the reference's reading: independent of what distributed does."""
    files = [load_file(place / "ck" / f"rank_{r}" / f"job_rank_{r}-{step}.safetensors") for r in range(ranks)]
    out = {}
    for name, first in files[0].items():
        base = name.replace("adam_m.", "").replace("adam_v.", "")
        axis = {"up.weight": 0, "up.bias": 0, "down.weight": 1}.get(base) if tp > 1 else None
        out[name] = first if axis is None else np.concatenate([f[name] for f in files[:tp]], axis)
    return out


def same(state, whole):
    assert set(state) == set(whole)
    for name, values in state.items():
        assert np.array_equal(
            np.asarray(values, whole[name].dtype).reshape(whole[name].shape), whole[name]
        ), name


@pytest.mark.parametrize(("ranks", "tp"), [(2, 2), (4, 2)])
def test_sharded_processes_and_another_strategy(tmp_path, never_killed, ranks, tp):
    whole = never_killed("by_hand", ranks, tp)
    place = tmp_path / "job"
    told = {
        "how": "by_hand",
        "ranks": ranks,
        "tp": tp,
        "saver": {"async_save": ranks == 2, "integrated_save": True},
    }
    run(place, kill=[2, 4], victim=ranks - 1, **told)
    run(place, **told)
    for rank in range(ranks):
        assert losses(place, rank) == whole[rank]
        assert resumed(place, rank)[1] in (
            "2_3",
            "2_4",
        )  # the others may have come further than the one that was killed
    truth = whole_of(place, "3_6", ranks, tp)
    integrated = load_file(place / "ck" / "integrated" / "job-3_6.safetensors")
    assert set(integrated) == set(truth) and all(np.array_equal(integrated[n], truth[n]) for n in truth)
    assert len(os.listdir(place / "ck" / "integrated")) == 5
    # Each process of another strategy gets exactly its own, and one process gets everything.
    other = {"how": "by_hand", "epochs": 4, "source": str(place / "ck")}
    run(tmp_path / "one", **other)
    same(json.loads((tmp_path / "one" / "state.0").read_text()), truth)
    assert resumed(tmp_path / "one") == ["3_6"]
    run(tmp_path / "two", ranks=2, tp=1 if ranks == 2 else 2, **other)
    for rank in range(2):
        state = json.loads((tmp_path / "two" / f"state.{rank}").read_text())
        if ranks == 2:
            same(state, truth)
        else:
            mine = slice(rank * saver_job.HIDDEN // 2, (rank + 1) * saver_job.HIDDEN // 2)
            cut = {
                n: (a[mine] if "up" in n else a[:, mine] if "down.weight" in n else a)
                for n, a in truth.items()
            }
            same(state, cut)
    # The next loss is that of the same weights, however the additions are grouped.
    first = [float.fromhex(losses(tmp_path / d)["4_1"]) for d in ("one", "two")]
    assert abs(first[0] - first[1]) < 1e-5


def test_one_process_that_cannot_write_is_an_error_of_all(tmp_path):
    place = tmp_path / "job"
    told = {"how": "by_hand", "ranks": 2, "tp": 2}
    run(place, kill=[1, 3], **told)
    (place / "ck" / "rank_1" / "job_rank_1-2_1.safetensors").mkdir()
    said = run(place, fails=True, **told)
    assert re.search(r"rank 1: \w*Error: .*job_rank_1-2_1", said), said[-3000:]
    os.rmdir(place / "ck" / "rank_1" / "job_rank_1-2_1.safetensors")
    assert steps_on_disk(place)[-1] == "job_rank_0-1_6.safetensors"
    run(place, **told)
    assert resumed(place)[-1] == "1_6" and steps_on_disk(place)[-1] == "job_rank_0-3_6.safetensors"


def files_under(place):
    return {str(f.relative_to(place)): f.read_bytes() for f in place.rglob("*") if f.is_file()}


def test_a_rank_that_is_lost_is_no_new_training(tmp_path):
    """Data parallel: the other rank has the whole model, and nothing of it goes."""
    told = {
        "how": "by_model",
        "ranks": 2,
        "epochs": 1,
        "saver": {"save_checkpoint_steps": 2, "keep_checkpoint_max": 1},
    }
    run(tmp_path, kill=[1, 5], **told)
    place = tmp_path / "ck"
    moved = shutil.move(place / "rank_1", tmp_path / "rank_1")
    before = files_under(place)
    said = run(tmp_path, fails=True, **told)
    assert re.search("no step of .* can be resumed from.*the directory rank_1 is gone", said), said[-3000:]
    assert files_under(place) == before
    shutil.move(moved, place / "rank_1")
    run(tmp_path, **told)
    assert resumed(tmp_path)[-1] == "1_4" and resumed(tmp_path).count("0_0") == 1


# ---------------------------------------------------------------- one process, without a training


def made(value=0.0):
    net = nn.Dense(3, 2)
    for p in net.get_parameters():
        p.set_data(ms.Tensor(np.full(p.shape, value, np.float32)))
    return net


def saved(directory, values, **more):
    with Saver(directory, "net", keep_checkpoint_max=0, **more) as saver:
        for i, value in enumerate(values):
            saver.save(made(value), 1, i + 1)
    return saver


def value_of(net):
    values = {float(v) for p in net.get_parameters() for v in p.asnumpy().reshape(-1)}
    assert len(values) == 1
    return values.pop()


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_damaged_steps_are_passed_over_and_named(tmp_path):
    saved(tmp_path, [1, 2, 3, 4, 5])
    files = [tmp_path / "rank_0" / f"net_rank_0-1_{i}.safetensors" for i in range(1, 6)]
    flip(files[4])
    with open(files[3], "r+b") as f:
        f.truncate(files[3].stat().st_size - 1)
    files[2].write_bytes(b"")
    net, saver = made(), Saver(tmp_path, "net")
    with pytest.warns(UserWarning, match="is passed over") as told:
        assert saver.resume(net) == Resumed(1, 2, {})
    assert value_of(net) == 2
    texts = [str(w.message) for w in told if "is passed over" in str(w.message)]
    assert len(texts) == 3 and all(f"step 1_{n} " in t for n, t in zip((5, 4, 3), texts)), texts
    saver.save(made(7), 1, 3)  # what was newer is out of the way: nobody takes it for a step of this training
    saver.save(made(8), 2, 1)
    saver.close()
    assert sorted(f.name for f in (tmp_path / "rank_0").iterdir()) == [
        ".saver.lock", "meta.json", *(f"net_rank_0-{s}.safetensors" for s in ("1_1", "1_2", "1_3", "2_1"))]  # fmt: skip
    flip(files[0])
    flip(files[1])
    flip(files[2])
    flip(tmp_path / "rank_0" / "net_rank_0-2_1.safetensors")
    with (
        pytest.warns(UserWarning, match="is passed over"),
        pytest.raises(SafetensorError, match="no step of .* can be resumed from"),
    ):
        Saver(tmp_path, "net").resume(net)
    assert value_of(net) == 2


def test_what_is_gone_or_of_two_trainings_is_told(tmp_path):
    saved(tmp_path / "a", [1, 2, 3])
    (tmp_path / "a" / "rank_0" / "net_rank_0-1_3.safetensors").unlink()
    with pytest.warns(
        UserWarning, match="step 1_3 of .* is passed over: a meta.json names it, and no file is there"
    ):
        assert Saver(tmp_path / "a", "net").resume(made()).step == 2
    file = tmp_path / "a" / "rank_0" / "net_rank_0-1_2.safetensors"
    shutil.copy(file, file.with_name("other_rank_0-1_2.safetensors"))
    with pytest.raises(SafetensorError, match="holds steps of two trainings"):
        Saver(tmp_path / "b", "net").resume(made(), source=tmp_path / "a")


def test_steps_that_are_gone_are_no_new_training(tmp_path):
    """Whatever is left of them: of one step and of several, their files, an empty directory of another rank."""
    for case, values in (("one", [1]), ("three", [1, 2, 3])):
        place = tmp_path / case
        saved(place, values)
        whole = shutil.copytree(place, tmp_path / f"{case}_whole")
        for file in (place / "rank_0").glob("*.safetensors"):
            file.unlink()
        with pytest.raises(SafetensorError, match="no step of .* can be resumed from.*no new training"):
            Saver(place, "net").resume(made())
        (whole / "rank_1").mkdir()
        before = files_under(whole)
        saver = Saver(whole, "net")
        with pytest.raises(SafetensorError, match="can be resumed from.*rank 1 has no file of it"):
            saver.resume(made())
        with pytest.raises(FileExistsError):
            saver.save(made(9), 1, 1)
        assert files_under(whole) == before
    torn = tmp_path / "torn"  # as a job leaves it that was killed in its first step
    saved(torn, [1])
    (torn / "rank_0" / "meta.json").unlink()
    (torn / "rank_1").mkdir()
    with pytest.warns(UserWarning, match="rank 1 has no file of it"):
        assert Saver(torn, "net").resume(made()) == Resumed(0, 0, {})


@pytest.mark.parametrize(
    "was, flipped",
    [
        (b'"[\\"lr\\"]"', b'"Z\\"lr\\"]"'),
        (b"saver.append_info", b"saver.append_infn"),
        (b'"[\\"lr\\"]"', b'"[\\"ls\\"]"'),
    ],
)
def test_damaged_metadata_are_passed_over(tmp_path, was, flipped):
    saved(tmp_path, [1, 2], append_info={"lr": 0.5})
    file = tmp_path / "rank_0" / "net_rank_0-1_2.safetensors"
    data = file.read_bytes()
    assert data.count(was) == 1
    file.write_bytes(data.replace(was, flipped))
    net = made()
    with pytest.warns(UserWarning, match="1_2 .* is passed over: .*saver.append_info"):
        assert Saver(tmp_path, "net").resume(net) == Resumed(1, 1, {"lr": 0.5})
    assert value_of(net) == 1


def test_a_file_under_another_steps_name_is_told(tmp_path):
    saved(tmp_path, [1, 2, 3])
    names = [tmp_path / "rank_0" / f"net_rank_0-1_{i}.safetensors" for i in range(1, 4)]
    shutil.copy(names[0], names[2])
    with pytest.warns(UserWarning, match="1_3 .* passed over: .*net_rank_0-1_3.*written as rank_0-1_1"):
        assert Saver(tmp_path, "net").resume(made()).step == 2


def test_a_step_without_parameters_is_none(tmp_path):
    with Saver(tmp_path, "net", keep_checkpoint_max=1) as saver:
        saver.save(made(5), 1, 1)
        with pytest.raises(ValueError, match="without parameters"):
            saver.save({}, 1, 2)
    assert Saver(tmp_path, "net").resume(made()).step == 1


def test_numbers_of_steps(tmp_path):
    with Saver(tmp_path, "net", keep_checkpoint_max=None) as saver:
        for epoch, step in ((1.5, 2), (1, "2"), (1, None)):
            with pytest.raises(TypeError):
                saver.save(made(), epoch, step)
        with pytest.raises(ValueError, match="18 digits"):
            saver.save(made(), 1, 2**63)
        saver.save(made(4), np.int64(1), np.int32(2))
    assert [f.name for f in tmp_path.glob("rank_0/*.safetensors")] == ["net_rank_0-1_2.safetensors"]
    with pytest.raises(TypeError):
        Saver(tmp_path, "net", keep_checkpoint_max=1.5)


def test_a_step_that_is_asked_for(tmp_path):
    saved(tmp_path, [1, 2, 3])
    net = made()
    assert Saver(tmp_path, "net").resume(net, step="1_2") == Resumed(1, 2, {}) and value_of(net) == 2
    with pytest.raises(SafetensorError, match="has no step 1_9: 1_1, 1_2, 1_3"):
        Saver(tmp_path, "net").resume(net, step="1_9")
    flip(tmp_path / "rank_0" / "net_rank_0-1_3.safetensors")
    with pytest.raises(SafetensorError, match="1_3 .*passed over"):
        Saver(tmp_path, "net").resume(net, step="1_3")


def test_a_directory_is_one_trainings(tmp_path):
    saved(tmp_path, [1, 2])
    with pytest.raises(FileExistsError, match="holds steps, the newest 1_2: resume"):
        Saver(tmp_path, "net").save(made(), 1, 3)
    saver = Saver(tmp_path, "other")
    saver.resume(made())
    with pytest.raises(FileExistsError, match="not of prefix other"):
        saver.save(made(), 1, 3)
    saver = Saver(tmp_path, "net")
    saver.resume(made())
    for epoch, step in ((1, 2), (1, 1), (0, 9)):
        with pytest.raises(ValueError, match="is not newer than 1_2"):
            saver.save(made(), epoch, step)


OTHER = """
import sys
import mindspore as ms
import numpy as np
from safetensors_c.mindspore import Saver
saver = Saver(sys.argv[1], "net")
net = {"w": ms.Parameter(ms.Tensor(np.zeros(4, np.float32)), name="w")}
point = saver.resume(net)
saver.save(net, 2, point.step + 1)
print("saved", flush=True)
sys.stdin.read()
"""


def test_a_second_training_is_told_of_the_first(tmp_path):
    net = {"w": ms.Parameter(ms.Tensor(np.zeros(4, np.float32)), name="w")}
    with Saver(tmp_path, "net") as saver:
        saver.save(net, 1, 1)
    other = subprocess.Popen([sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)  # fmt: skip
    try:
        late = Saver(tmp_path, "net")
        late._hold = lambda make: None  # as if its directory could not be locked at resume
        late.resume(net)
        del late._hold
        assert other.stdout.readline() == "saved\n"
        before = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
        for what in (
            lambda: Saver(tmp_path, "net").resume(net),
            lambda: Saver(tmp_path, "net").save(net, 3, 1),
        ):
            with pytest.raises(SafetensorError, match="another process saves in .*rank_0") as told:
                what()
            assert told.value.status == "SFT_E_STATE"
        assert Saver(tmp_path / "new", "net").resume(net, source=tmp_path).epoch == 2  # reading is free
    finally:
        other.kill()
        other.wait()
        other.stdin.close()
        other.stdout.close()
    with pytest.raises(FileExistsError, match="holds step 2_2 of another training"):
        late.save(net, 1, 2)
    assert before == {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    first = Saver(tmp_path, "net")
    assert first.resume(net)[:2] == (2, 2)  # after a kill nothing is locked
    with pytest.raises(SafetensorError, match="another Saver of this process"):
        Saver(tmp_path, "net").resume(net)
    first.save(net, 3, 1)
    first.close()
    second = Saver(tmp_path, "net")
    second.resume(net)
    second.save(net, 3, 2)
    with pytest.raises(SafetensorError, match="another Saver of this process"):
        first.save(net, 3, 2)
    second.close()
    with pytest.raises(FileExistsError, match="holds step 3_2 of another training"):
        first.save(net, 3, 2)
    second.save(net, 3, 3)  # it begins again
    assert (tmp_path / "rank_0" / ".saver.lock").read_bytes() == b""


def test_nothing_there_is_a_begin_and_anything_else_is_not(tmp_path):
    assert Saver(tmp_path / "none", "net").resume(made()) == Resumed(0, 0, {})
    (tmp_path / "ck" / "rank_0").mkdir(parents=True)
    assert Saver(tmp_path / "ck", "net").resume(made()) == Resumed(0, 0, {})
    (tmp_path / "model").mkdir()
    ms.save_checkpoint(made(), str(tmp_path / "model" / "net"), format="safetensors")
    with pytest.raises(SafetensorError, match="holds no steps of a training job"):
        Saver(tmp_path / "ck", "net").resume(made(), source=tmp_path / "model")
    with pytest.raises(SafetensorError, match="is not there"):
        Saver(tmp_path / "ck", "net").resume(made(), source=tmp_path / "nowhere")
    with pytest.raises(SafetensorError, match="has no step 1_1"):
        Saver(tmp_path / "ck", "net").resume(made(), step="1_1")


def test_another_model_is_an_error_and_changes_nothing(tmp_path):
    saved(tmp_path, [3])
    net = nn.SequentialCell(made(1), made(2))
    with pytest.raises(SafetensorError, match="missing"):
        Saver(tmp_path, "net").resume(net)
    small = nn.Dense(2, 2)
    before = {p.name: p.asnumpy().copy() for p in small.get_parameters()}
    with pytest.raises(SafetensorError, match=r"`weight` is Float32 \[2, 3\]"):
        Saver(tmp_path, "net").resume(small)
    assert all(np.array_equal(before[p.name], p.asnumpy()) for p in small.get_parameters())


@pytest.mark.parametrize("kind", ["safetensors", "ckpt"])
@pytest.mark.parametrize("crc", [False, True])
def test_steps_of_mindspores_own_callback(tmp_path, crc, kind):
    """ModelCheckpoint's files of one device: the newest; of save_checkpoint(crc_check=True), damage is found."""
    net = made(1)
    place = tmp_path / "theirs"
    place.mkdir()
    for i, value in enumerate((1, 2)):
        ms.save_checkpoint(made(value), str(place / f"CKP-1_{i + 1}.{kind}"), format=kind, crc_check=crc,
                           append_dict={"epoch_num": 1, "step_num": i + 1})  # fmt: skip
    point = Saver(tmp_path / "ours", "net").resume(net, source=place)
    assert point == Resumed(1, 2, {"epoch_num": 1, "step_num": 2}) and value_of(net) == 2
    newest = place / f"CKP-1_2.{kind}"
    os.chmod(newest, 0o600)
    if crc:
        flip(newest, newest.read_bytes().index(np.full(2, 2, np.float32).tobytes()))
        with pytest.warns(UserWarning, match="1_2 .* is passed over: .*(crc_num|crc-mismatch)"):
            assert Saver(tmp_path / "ours", "net").resume(net, source=place).step == 1


def test_ranks_in_ckpt_files(tmp_path):
    """Two ranks' .ckpt by MindSpore, cut by rows: resumed from as one model; a damaged step is passed over."""
    layout = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2}},
              "tensors": [{"name": "weight", "cuts": ["x", None]}, {"name": "bias", "whole": True}]}  # fmt: skip
    truth = {}
    for step in (1, 2):
        whole = np.arange(6, dtype=np.float32).reshape(2, 3) * step
        truth[step] = whole
        for rank in range(2):
            place = tmp_path / "theirs" / f"rank_{rank}"
            place.mkdir(parents=True, exist_ok=True)
            parts = [{"name": "weight", "data": ms.Tensor(whole[rank : rank + 1])},
                     {"name": "bias", "data": ms.Tensor(np.full(2, step, np.float32))}]  # fmt: skip
            ms.save_checkpoint(parts, str(place / f"net_rank_{rank}-1_{step}.ckpt"), crc_check=True)
    net = made()
    assert [p.shape for p in net.get_parameters()] == [(2, 3), (2,)]
    point = Saver(tmp_path / "ours", "net").resume(net, source=tmp_path / "theirs", layout=layout)
    assert point.step == 2 and np.array_equal(net.weight.asnumpy(), truth[2])
    assert net.bias.asnumpy().tolist() == [2, 2]
    damaged = tmp_path / "theirs" / "rank_1" / "net_rank_1-1_2.ckpt"
    os.chmod(damaged, 0o600)
    flip(damaged, damaged.read_bytes().index(truth[2][1:].tobytes()))
    with pytest.warns(UserWarning, match="1_2 .* is passed over: .*crc-mismatch"):
        point = Saver(tmp_path / "ours", "net").resume(net, source=tmp_path / "theirs", layout=layout)
    assert point.step == 1 and np.array_equal(net.weight.asnumpy(), truth[1])
    with distributed.open_checkpoint(tmp_path / "theirs", layout=layout, step="1_1") as whole:
        assert np.array_equal(whole["weight"], truth[1])


def test_appended_values_come_back(tmp_path):
    generator = ms.Generator()
    generator.manual_seed(5)
    given = {
        "loss_scale": 1024,
        "rate": 0.1,
        "done": True,
        "vector": ms.Tensor([1.0, 2.0]),
        "state": generator,
    }
    with Saver(tmp_path, "net", append_info=["epoch_num", given], crc_check=True) as saver:
        saver.save(made(1), 4, 2, append={"batch": 7, "step_num": 58})
    point = Saver(tmp_path, "net").resume(made())
    vector, state = point.extra.pop("vector"), point.extra.pop("state")
    assert point.extra == {
        "epoch_num": 4,
        "step_num": 58,
        "loss_scale": 1024,
        "rate": np.float32(0.1),
        "done": True,
        "batch": 7,
    }
    assert vector.asnumpy().tolist() == [1, 2] and np.array_equal(
        state.asnumpy(), generator.get_state().asnumpy()
    )
    path = str(tmp_path / "rank_0" / "net_rank_0-4_2.safetensors")
    theirs = ms.load_checkpoint(path, format="safetensors", crc_check=True)
    assert int(theirs["loss_scale"].asnumpy()) == 1024


def test_arguments_that_cannot_be(tmp_path, monkeypatch):
    for wrong, words in (
        ({"prefix": "a/b"}, "prefix"), ({"prefix": ""}, "prefix"), ({"prefix": "a_rank_1"}, "prefix"),
        ({"async_save": "process"}, "async_save"), ({"save_checkpoint_steps": 0}, "at least 1"),
        ({"keep_checkpoint_max": -1}, "at least 0"), ({"remove_redundancy": True}, "no replicas"),
        ({"append_info": ["epoch"]}, "append_info"), ({"layout": saver_job.layout_of(2, 2)}, "2 ranks"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            Saver(tmp_path, **{"prefix": "net", **wrong})
    for wrong in ({"text": "x"}, {"none": None}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            Saver(tmp_path, "net", append_info=[wrong])
    saver = Saver(tmp_path, "net", append_info={"weight": 1})
    with pytest.raises(ValueError, match="`weight` is a parameter's name"):
        saver.save(made(), 1, 1)
    with pytest.raises(ValueError, match="cannot check `n`, which is -1"):
        Saver(tmp_path / "b", "net", append_info={"n": -1}, crc_check=True).save(made(), 1, 1)
    with pytest.raises(TypeError, match="`x` is list"):
        saver.save({"x": [1]}, 1, 1)
    for epoch, step in ((1, 0), (-1, 1)):
        with pytest.raises(ValueError, match="counted from 1"):
            saver.save(made(), epoch, step)
    monkeypatch.setenv("MS_WORKER_NUM", "2")
    with pytest.raises(RuntimeError, match="communication.init"):
        Saver(tmp_path, "net")
    monkeypatch.setattr(module, "_world", lambda: (0, 2))
    with pytest.raises(ValueError, match="parallel_mode is stand_alone: say by layout="):
        Saver(tmp_path, "net")


def test_an_error_behind_comes_with_the_next_call(tmp_path):
    saver = Saver(tmp_path, "net", async_save=True)
    saver.save(made(1), 1, 1)
    saver.wait()
    os.mkdir(tmp_path / "rank_0" / "net_rank_0-1_2.safetensors")
    saver.save(made(2), 1, 2)
    with pytest.raises((OSError, SafetensorError), match="net_rank_0-1_2"):
        saver.save(made(3), 1, 3)
    os.rmdir(tmp_path / "rank_0" / "net_rank_0-1_2.safetensors")
    saver.save(made(3), 1, 3)
    saver.close()
    net = made()
    assert Saver(tmp_path, "net").resume(net).step == 3 and value_of(net) == 3


def test_what_is_saved_behind_is_what_was_given(tmp_path):
    net, saver = made(1), Saver(tmp_path, "net", async_save=True)
    saver.save(net, 1, 1)
    for p in net.get_parameters():
        p.set_data(ms.Tensor(np.full(p.shape, 9, np.float32)))
        p.asnumpy()[...] = 9
    saver.close()
    assert load_file(tmp_path / "rank_0" / "net_rank_0-1_1.safetensors")["bias"].tolist() == [1, 1]


def test_without_replicas_as_mindspore_would(tmp_path, monkeypatch):
    """Of MindSpore's own strategy: who keeps what, by its get_parameter_redundancy and remove_param_redundancy."""
    from mindspore.train._utils import get_parameter_redundancy, remove_param_redundancy
    from safetensors_c import _mindspore_steps

    sys.path.insert(0, os.path.join(os.path.dirname(JOB), "..", "..", "checkpoint"))
    from mindspore_peer import protobuf

    rng = np.random.default_rng(11)
    for case in range(40):
        mesh = [int(n) for n in rng.choice([1, 2, 3, 4], size=2)]
        if int(np.prod(mesh)) == 1:
            continue
        entries = [
            (f"p{i}.w", mesh, [int(rng.integers(-1, 2)), -1], 0, 0) for i in range(int(rng.integers(1, 12)))
        ]
        path = tmp_path / f"strategy{case}.ckpt"
        path.write_bytes(protobuf(entries))
        theirs = remove_param_redundancy(get_parameter_redundancy(str(path), 0))
        layout = distributed.read_layout(path)
        monkeypatch.setattr(module, "_world", lambda n=int(np.prod(mesh)): (0, n))
        assert Saver(tmp_path / "ck", "net", layout=path)._layout == layout
        for rank in range(int(np.prod(mesh))):
            assert _mindspore_steps.kept_by(layout, rank, [e[0] for e in entries]) == theirs.get(
                rank, set()
            ), (case, rank)
