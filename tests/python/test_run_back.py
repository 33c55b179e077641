# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run: a training that goes on from an older step, or anew: what is refused, and what a rewind removes."""

import json
import os
import re
import shutil
import subprocess
import sys
import warnings

import pytest
import torch
from safetensors_c import Run, SafetensorError


def model(value):
    one = torch.nn.Linear(3, 3)
    torch.nn.init.constant_(one.weight, value)
    return one


def steps_of(run):
    return [s["step"] for s in run.steps() if s["complete"]]


def flip(file):
    data = bytearray(file.read_bytes())
    data[-5] ^= 0x10
    file.write_bytes(data)


def test_going_back_is_asked_for(tmp_path):
    with Run(tmp_path) as run:
        for step in (10, 20, 30):
            run.save(step, model=model(step))
        with pytest.raises(FileExistsError, match=r"step 15 comes before step 30.*rewind"):
            run.save(15, model=model(15))
        run.wait()
        one = model(0)
        with pytest.warns(UserWarning, match=r"newer steps than 10 \(step-000000020, step-000000030\)"):
            assert run.resume(model=one, step=10).step == 10
        with pytest.raises(FileExistsError, match="step 15"):
            run.save(15, model=one)
        assert steps_of(run) == [10, 20, 30]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run.resume(model=one, step=10, rewind=True).step == 10
        assert steps_of(run) == [10]
        assert (tmp_path / "latest").read_text() == "step-000000010\n"
        run.save(15, model=one)
        run.wait()
        with pytest.raises(SafetensorError, match="no complete step 12") as told:
            run.rewind(12)
        assert told.value.status == "SFT_E_NOT_FOUND"
        assert run.rewind(10) == 1 and steps_of(run) == [10]
        assert run.rewind(None) == 1 and steps_of(run) == []
        assert not (tmp_path / "latest").exists()
        assert run.resume(model=one, rewind=True) == (0, None)
        run.save(5, model=one)


def test_a_damaged_newer_step_is_no_hindrance(tmp_path):
    with Run(tmp_path) as run:
        for step in (10, 20):
            run.save(step, model=model(step))
    flip(tmp_path / "step-000000020" / "model.safetensors")
    with Run(tmp_path, keep_last=2) as run:
        with pytest.warns(UserWarning, match="step-000000020 was passed over"):
            assert run.resume(model=model(0)).step == 10
        run.save(15, model=model(15)).committed.result()
        assert {10, 15} <= set(steps_of(run))
        run.save(20, model=model(20)).committed.result()
        assert run.resume(model=model(0)).step == 20


def test_an_unknown_metric_prunes_nothing(tmp_path):
    with Run(tmp_path, best="val_los") as run:
        run.save(1, model=model(1), metrics={"val_loss": 1.0})
        with pytest.warns(UserWarning, match="no step has the metric best='val_los', this one has val_loss"):
            run.save(2, model=model(2), metrics={"val_loss": 2.0})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run.save(3, model=model(3), metrics={"val_loss": 3.0})  # once
        run.wait()
        assert steps_of(run) == [1, 2, 3]
        with pytest.raises(SafetensorError, match="val_los.*that are there: val_loss"):
            run.prune()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Run(tmp_path, best="val_loss", mode="max") as run:
            run.save(4, model=model(4))  # another one has it
            run.wait()
            assert steps_of(run) == [3, 4]


def test_a_step_is_replaced_while_it_is_written(tmp_path):
    with Run(tmp_path) as run:
        for value in range(5):
            run.save(1, model=model(value), replace=True)
        one = model(-1)
        assert run.resume(model=one).step == 1
        assert torch.equal(one.weight, model(4).weight)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"keep_last": -1}, "keep_last"),
        ({"keep_every": -3}, "keep_every"),
        ({"shard_bytes": -1}, "shard_bytes"),
        ({"keep_seconds": -0.5}, "keep_seconds"),
        ({"keep_best": 2}, "best="),
        ({"best": ""}, "best"),
    ],
)
def test_wrong_rules_are_named(tmp_path, wrong, words):
    with pytest.raises(ValueError, match=words):
        Run(tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", [-1, 1.5, float("nan"), "2", True])
def test_the_periods_of_a_guard_are_checked(tmp_path, wrong):
    with Run(tmp_path) as run:
        for name in ("every", "agree"):
            with pytest.raises((TypeError, ValueError), match=f"^{name} is a "):
                run.guard(**{name: wrong})


def test_a_part_of_a_second_is_a_rule(tmp_path):
    with Run(tmp_path, keep_seconds=0.5) as run:
        run.save(1, model=model(1))
        run.wait()
        assert all(s["kept"] & 16 == 0 for s in run.steps())  # 16: there is no rule


def test_lbfgs_with_its_parameters_in_another_order(tmp_path):
    one = model(1)
    optimizer = torch.optim.LBFGS([one.weight, one.bias], max_iter=2)
    x = torch.randn(4, 3)

    def closure():
        optimizer.zero_grad()
        loss = one(x).square().mean()
        loss.backward()
        return loss

    with Run(tmp_path) as run:
        run.save(1, model=one, optimizer=optimizer)  # nothing is known yet: any order
        run.wait()
        run.resume(model=one, optimizer=torch.optim.LBFGS([one.bias, one.weight]))
        optimizer.step(closure)
        run.save(2, model=one, optimizer=optimizer)
        run.wait()
        run.resume(model=one, optimizer=torch.optim.LBFGS([one.weight, one.bias]))
        with pytest.raises(SafetensorError, match="LBFGS.*`bias` where the step has `weight`"):
            run.resume(model=one, optimizer=torch.optim.LBFGS([one.bias, one.weight]))


@pytest.mark.parametrize("step", [2**64 - 1, 2**53, -1, True, 1.0])
def test_only_the_number_of_a_step_is_taken(tmp_path, step):
    with Run(tmp_path) as run:
        for number in (1, 2):
            run.save(number, extra=number)
        run.wait()
        for call in (run.rewind, lambda s: run.resume(step=s), lambda s: run.resume(step=s, rewind=True)):
            with pytest.raises((TypeError, ValueError), match="step is a"):
                call(step)
        assert steps_of(run) == [1, 2]


@pytest.mark.skipif("SFT_TOOL" not in os.environ, reason="SFT_TOOL names no tool")
@pytest.mark.parametrize("mark, newest", [(".step-000000002.sft-back", 2), (".sft-back", None)])
def test_steps_above_the_mark_of_a_rewind_are_there_for_nobody(tmp_path, mark, newest):
    with Run(tmp_path) as run:
        for number in (1, 2, 3):
            run.save(number, extra=number)
    (tmp_path / mark).touch()
    with Run(tmp_path, read_only=True) as run:
        assert run.resume() == ((newest, newest) if newest else (0, None))
    command = [os.environ["SFT_TOOL"], "resume-point", "--json", tmp_path]
    told = subprocess.run(command, capture_output=True, text=True)
    chosen = json.loads(told.stdout)["chosen"]
    assert (chosen and chosen["step"]) == newest and told.returncode == (newest is None)
    assert "a rewind to an older step has begun" in told.stdout


def lose_state(run):
    (run / "step-000000003" / "state.json").unlink()


def lose_manifests(run):
    for step in (2, 3):
        (run / f"step-{step:09d}" / "manifest.json").unlink()


def rename(run):
    (run / "step-000000003").rename(run / "step-000000007")


@pytest.mark.skipif("SFT_TOOL" not in os.environ, reason="SFT_TOOL names no tool")
@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize(
    "change, newest",
    [
        (lambda run: (run / ".step-000000002.sft-back").touch(), 2),
        (lambda run: (run / ".sft-back").touch(), None),
        (lose_state, 2),
        (lose_manifests, 1),
        (rename, 2),
        (lambda run: [(run / f"step-{step:09d}" / "state.json").unlink() for step in (1, 2, 3)], None),
        (lambda run: (run / "rank_0").mkdir(), 3),
    ],
)
def test_resume_point_takes_the_step_that_a_run_takes(tmp_path, change, newest, lost):
    """Also where run.json is lost, which the newest step makes good, and beside a directory of a rank."""
    with Run(tmp_path) as run:
        for number in (1, 2, 3):
            run.save(number, model=model(1))
    if lost:
        (tmp_path / "run.json").unlink()
    change(tmp_path)
    command = [os.environ["SFT_TOOL"], "resume-point", "--json", tmp_path]
    told = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    assert (told["chosen"] and told["chosen"]["step"]) == newest
    if newest is not None:
        with Run(tmp_path, read_only=True) as run, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert run.resume(model=model(1)).step == newest


@pytest.mark.skipif("SFT_TOOL" not in os.environ, reason="SFT_TOOL names no tool")
def test_a_run_json_that_says_nothing_is_told(tmp_path):
    with Run(tmp_path) as run:
        run.save(1, extra=1)
    (tmp_path / "run.json").write_text("{}")
    command = [os.environ["SFT_TOOL"], "resume-point", tmp_path]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 1 and "run.json is not one of a run" in told.stderr and not told.stdout


@pytest.mark.skipif("SFT_TOOL" not in os.environ, reason="SFT_TOOL names no tool")
def test_diff_of_two_steps_compares_their_states(tmp_path):
    one = model(1)
    with Run(tmp_path) as run:
        for step, extra in ((1, {"lr": 0.5}), (2, {"lr": 0.25}), (3, {"lr": 0.5})):
            run.save(step, model=one, extra=extra, rng=False)

    def diff(a, b, *more):
        command = [os.environ["SFT_TOOL"], "diff", *more, f"step-{a:09d}", tmp_path / f"step-{b:09d}/"]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    other = diff(1, 2)
    assert other.returncode == 1 and "~ state extra: " in other.stdout and '"0.25"' in other.stdout
    told = json.loads(diff(1, 2, "--json").stdout)
    assert not told["same"] and [s["key"] for s in told["states"]] == ["extra"]
    same = diff(1, 3)
    assert same.returncode == 0 and not same.stdout and not same.stderr
    assert json.loads(diff(1, 3, "--json").stdout)["states"] == []
    (tmp_path / "run.json").write_text("{}")
    assert "what is no tensor is not compared: run.json" in diff(1, 3).stderr


def test_a_rewind_that_fails_to_load_removes_nothing(tmp_path):
    with Run(tmp_path) as run:
        for step in (10, 20):
            run.save(step, model=model(step))
        run.wait()
        flip(tmp_path / "step-000000010" / "model.safetensors")
        with pytest.raises(SafetensorError):
            run.resume(model=model(0), step=10, rewind=True)
        assert steps_of(run) == [10, 20]


def test_files_of_a_step_may_lie_in_a_directory(tmp_path):
    files = {"a.txt": "a", "chat/one.jinja": "1", "chat/two.jinja": b"2", "more/one.jinja": "3"}
    with Run(tmp_path, keep_last=1) as run:
        run.save(1, model=model(1), files=files).committed.result()
        for name, text in files.items():
            assert (tmp_path / "step-000000001" / name).read_bytes().decode() == (
                text if isinstance(text, str) else text.decode()
            )
        assert run.steps(verify=True)[0]["verified"]
        for name in ("a/b/c", "/a", "a/", ".a/b", "a/.b", "../b", "a/..", "a//b", "a/state.bin", "a\\b"):
            with pytest.raises(SafetensorError, match="no plain name"):
                run.save(2, model=model(2), files={name: "x"})
        with pytest.raises(TypeError, match="files: 'n' is a int"):
            run.save(2, model=model(2), files={"n": 5})
        inner = tmp_path / "step-000000001" / "chat"
        (inner / "two.jinja").write_bytes(b"3")
        [step] = run.steps(verify=True)
        assert step["verified"] is False and "chat/two.jinja is damaged" in step["why"]
        inner.rename(tmp_path / "chat")
        inner.symlink_to(tmp_path / "chat")
        [step] = run.steps()
        assert not step["complete"] and "behind a link" in step["why"]
        inner.unlink()
        (tmp_path / "chat").rename(inner)
        run.save(3, model=model(3)).committed.result()
        assert steps_of(run) == [3] and not inner.exists()


def test_the_newest_good_step_is_found_without_reading_older_ones(tmp_path):
    with Run(tmp_path) as run:
        for step in (1, 2, 3):
            run.save(step, model=model(step))
        run.wait()
        for step in (1, 3):
            flip(tmp_path / f"step-{step:09d}" / "model.safetensors")
        step, passed = run._newest_good()
        assert step == 2 and [(s["step"], s["verified"]) for s in passed] == [(3, False)]
        assert [s["verified"] for s in run.steps()] == [None, None, False]


def test_keep_is_the_number_of_a_step_that_is_there(tmp_path):
    with Run(tmp_path, keep_last=1) as run:
        run.save(1, model=model(1), keep=1)
        for keep, words in (
            (2**64 + 1, "2\\^53"),
            (2**64 - 1, "2\\^53"),
            (-1, "not -1"),
            (True, "not True"),
            (99, "keep=99: the run has no such step"),
        ):
            with pytest.raises(ValueError, match=words):
                run.save(2, model=model(2), keep=keep)
        for step, kind in ((-1, ValueError), ("9", TypeError), (1.5, TypeError), (True, ValueError)):
            with pytest.raises(kind, match="a step is a"):
                run.save(step, model=model(2))
        run.save(2, model=model(2)).committed.result()
        run.save(3, model=model(3), keep=2).committed.result()
        run.wait()
        run.save(4, model=model(4)).committed.result()
        run.wait()
        assert steps_of(run) == [2, 4]


SAVES = """
import sys, torch
from safetensors_c import Run
one = torch.nn.Linear(3, 3)
one.weight.requires_grad_(False)
for step, durable in ((1, False), (2, True)):
    with Run(sys.argv[1] + ("" if step == 1 else "/../run"), durable=durable) as run:
        run.save(step, model=one)
Run(sys.argv[1] + "/../new").close()
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_what_a_durable_save_needs_is_flushed(tmp_path):
    trace = tmp_path / "trace"
    made = subprocess.run(
        [
            "strace",
            "-f",
            "-y",
            "-e",
            "trace=fsync",
            "-o",
            trace,
            sys.executable,
            "-c",
            SAVES,
            tmp_path / "run",
        ],
        capture_output=True,
        text=True,
    )
    if not trace.exists() or "ptrace" in made.stderr:
        pytest.skip("no process can be traced here")
    assert made.returncode == 0, made.stderr
    linked = [p for p in (tmp_path / "run" / "step-000000001").iterdir() if p.stat().st_nlink == 2]
    flushed = {os.path.realpath(p) for p in re.findall(r"fsync\(\d+<([^>]*)>", trace.read_text())}
    assert linked and {str(p.resolve()) for p in linked} <= flushed
    assert str(tmp_path.resolve()) in flushed  # where the new run lies


def test_a_sha256_of_the_manifest_is_compared_by_resume_as_by_verify(tmp_path):
    with Run(tmp_path, sha256=True) as run:
        for step in (1, 2):
            run.save(step, model=model(step))
    manifest = tmp_path / "step-000000002" / "manifest.json"
    told = json.loads(manifest.read_text())
    file = told["files"]["model.safetensors"]
    text = manifest.read_text().replace(file["sha256"], "0" * 64).encode()
    begin = text.rindex(b'  "crc32c"')
    text = text[:begin] + b'  "crc32c": "%08x"\n}\n' % crc32c(text[:begin])
    manifest.write_bytes(text)
    with Run(tmp_path) as run:
        assert [s["verified"] for s in run.steps(verify=True)] == [True, False]
    with Run(tmp_path) as run, pytest.warns(UserWarning, match="step-000000002 was passed over.*SHA-256"):
        assert run.resume(model=model(0)).step == 1


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_a_step_that_only_could_not_be_read_is_no_damaged_one(tmp_path):
    resource = pytest.importorskip("resource")
    with Run(tmp_path) as run:
        for step in (100, 200, 300):
            run.save(step, model=model(step))
        run.wait()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        newest = tmp_path / "step-000000300" / "model.safetensors"
        for spare in range(12):
            here = max(map(int, os.listdir("/proc/self/fd")))
            fillers = [os.open(os.devnull, os.O_RDONLY) for _ in range(here)]
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(fillers) + 1 + spare, hard))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    step = run.resume(model=model(0), rng=False).step
            except (OSError, SafetensorError):
                step = None
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for fd in fillers:
                    os.close(fd)
            if step == 300:
                break
            with pytest.raises(FileExistsError, match="300"):
                run.save(250, model=model(250))
            with pytest.raises(FileExistsError, match="step-000000300"):
                run._begin_training(200, False, "word")
        assert step == 300 and newest.exists()
