# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs of many processes: jobs of torchrun over gloo save sharded and replicated models with their optimizers, and others of
other sizes resume them; processes are killed at random moments; one that is missing is named."""

from __future__ import annotations

import glob
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
from safetensors_c import Run  # noqa: E402

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "group_worker.py")
PATIENCE = 120


def start(size, *arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [*command, WORKER, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def told(out):
    """The lines of all processes; they write whole lines."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def job(size, *arguments):
    """What the processes of a job tell, by rank: one line of each."""
    process = start(size, *arguments)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    return told(out)


def by_rank(facts):
    return {f["rank"]: f for f in facts}


# ---------------------------------------------------------------- other numbers of processes


@pytest.mark.parametrize("kind", ["fsdp", "ddp"])
def test_resumed_by_other_numbers_of_processes(tmp_path, kind):
    path = tmp_path / "run"
    saved = by_rank(job(4, "save", path, kind, 7))
    for size in (4, 2, 3):
        for rank, facts in by_rank(job(size, "resume", path, kind, 7)).items():
            assert facts["found"] == 7 and facts["wrong"] == []
            assert facts["steps"] == [1.0] * 5 and facts["lr"] == saved[0]["lr"]
            if size == 4:
                assert facts["left"] == [] and facts["told"] == []
                assert facts["extra"] == {"mine": rank, "same": [1, 2.5], "of": [rank]}
                assert facts["after"] == saved[rank]["after"]
            else:
                assert facts["left"] == ["loader", "rng.numpy", "rng.python", "rng.torch"]
                (sentence,) = facts["told"]
                assert f"saved by 4 processes, and {size} resume it" in sentence
                assert "not put back" in sentence and "rng.python" in sentence and "loader" in sentence
                assert "rank 0's, of several that differed: extra" in sentence
                assert facts["extra"] == {"mine": 0, "same": [1, 2.5], "of": [0]}


def test_more_processes_and_one(tmp_path):
    path = tmp_path / "run"
    job(2, "save", path, "fsdp", 3)
    assert all(f["wrong"] == [] and f["found"] == 3 for f in job(4, "resume", path, "fsdp", 3))
    # the kinds of sharding do not matter, either
    assert all(f["wrong"] == [] and f["found"] == 3 for f in job(2, "resume", path, "ddp", 3))
    job(1, "save", path, "fsdp", 4)
    assert all(f["wrong"] == [] and f["found"] == 4 for f in job(3, "resume", path, "fsdp", 4))


def test_a_single_process_reads_it_without_a_group(tmp_path):
    path = tmp_path / "run"
    job(4, "save", path, "fsdp", 5)
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    sys.path.insert(0, os.path.dirname(WORKER))
    import group_worker

    state = group_worker.objects("whole")
    with Run(path) as run, pytest.warns(UserWarning, match="saved by 4 processes, and 1 resume it; not put"):
        assert run.resume(**state).step == 5
    assert group_worker.wrong(state["model"], state["optimizer"], 5) == []
    found = [
        f for pattern in ("*.bin", "*.pt", "*.pkl", ".metadata") for f in glob.glob(f"{path}/*/{pattern}")
    ]
    assert found == []


# ---------------------------------------------------------------- faults


def test_processes_that_disagree(tmp_path):
    facts = job(4, "disagree", tmp_path / "run")
    for rank in range(4):
        step, lamb, names, objects, call, steps = [f for f in facts if f["rank"] == rank]
        assert step["error"] == "rank 1 has step 5, and rank 0 has step 4"
        assert "extra" in lamb["error"] and "function" in lamb["error"]
        assert lamb["kind"] == ("TypeError" if rank == 1 else "SafetensorError")
        assert names["error"].startswith("rank 2 has other parameters")
        assert objects["error"].startswith("rank 1 saves model, and rank 0 saves model, scheduler")
        assert call["error"] == "rank 1 is in a resume, and rank 0 in a save"
        assert steps["steps"] == [8]


def test_processes_go_back_together(tmp_path):
    facts = job(3, "back", tmp_path / "run")
    for rank in range(3):
        save, begin, *wrong, there, steps = [f for f in facts if f["rank"] == rank]
        assert "step 15 comes before step 30" in save["error"]
        assert "begins from step 10" in begin["error"] and "step-000000030" in begin["error"]
        for f, words in zip(
            wrong,
            (
                "rank 1 is in a rewind to step 20, and rank 0 in a rewind to step 10",
                "rank 1 is in a rewind to nothing, and rank 0 in a rewind to step 10",
                "rank 1 is in a resume of step 10, and rank 0 in a resume of step 10, with a rewind",
                "rank 1 is in a resume of step 20, and rank 0 in a resume of step 10",
                "a step is a number up to 2^53 - 1, not -1",
            ),
        ):
            assert words in f["error"]
        assert len(wrong) == 5 and there["steps"] == [10, 20, 30]
        assert steps["steps"] == [10, 15]


def test_a_process_that_does_not_come(tmp_path):
    facts = by_rank(job(4, "absent", tmp_path / "run"))
    assert sorted(facts) == [0, 1, 3]
    for f in facts.values():
        assert f["status"] == "SFT_E_TIMEOUT" and f["error"].endswith("rank 2")
        assert f["after"] < 3


def test_a_process_that_comes_late_sends_nothing(tmp_path):
    facts = by_rank(job(3, "late", tmp_path / "run"))
    assert sorted(facts) == [0, 1, 2]
    for rank, f in facts.items():
        assert f["gathered"] == [[[0], [1], [2]], [[0, 0], [1, 1], [2, 2]], [[0], [1], [2]]]
        assert ("not there within 1.5 s: rank 2" if rank < 2 else "rank 2 came when") in f["error"]


def test_two_groups_on_one_run(tmp_path):
    facts = by_rank(job(4, "twice", tmp_path / "run"))
    assert facts[0]["error"] is None and facts[1]["error"] is None
    assert facts[2]["status"] == facts[3]["status"] == "SFT_E_STATE"


# ---------------------------------------------------------------- kills


def start_alone(size, *arguments):
    """The processes of a job as torchrun starts them, without torchrun, which ends the survivors of a kill at once. The
    store is this process's, as it is the launcher's there."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(size),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, WORKER, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(size)
    ]
    return store, processes


# ---------------------------------------------------------------- kills


def test_killed_at_random_moments(tmp_path):
    """20 kills of one process or of all: no committed step is lost, no torn one chosen, the survivors name the dead."""
    path = tmp_path / "run"
    dice = random.Random(20)
    committed = survivors = 0
    for kill in range(20):
        size = dice.choice((4, 4, 2, 3))
        store, processes = start_alone(size, "train", path, dice.choice(("fsdp", "ddp")), 100000)
        lines = [p.stdout.readline() for p in processes]  # all are in their loops
        time.sleep(dice.uniform(0, 0.4))
        dead = list(range(size)) if dice.random() < 0.3 else [dice.randrange(size)]
        for rank in dead:
            processes[rank].send_signal(signal.SIGKILL)
        facts = []
        for p, line in zip(processes, lines):
            out, err = p.communicate(timeout=60)
            facts += told(line + out)
            assert p.returncode in (-signal.SIGKILL, 3), err
        assert sum("at" in f for f in facts) == size
        for f in facts:
            if "at" in f:
                assert f["at"] >= committed and f["wrong"] == [], (kill, f)
            if "error" in f:
                survivors += 1
                assert f["after"] < 2 * 4 + 6, f
                assert f"rank {dead[0]}" in f["error"], (kill, dead, f)
        committed = max([committed, *(f["committed"] for f in facts if "committed" in f)])
        assert {f["rank"] for f in facts if "error" in f} == set(range(size)) - set(dead)
        del store
    assert committed >= 10 and survivors >= 10
    print(f"{committed} steps committed, {survivors} survivors")


# ---------------------------------------------------------------- signals


def guarded(path, size, *arguments):
    """Processes that are in their loops, and what they told, by rank."""
    store, processes = start_alone(size, "guard", path, *arguments)
    lines = [p.stdout.readline() for p in processes]
    assert all(told(line)[0]["wrong"] == [] for line in lines)
    time.sleep(0.3)
    return store, processes, [told(line)[0]["at"] for line in lines]


def ended(processes, status):
    facts = []
    for p in processes:
        out, err = p.communicate(timeout=60)
        assert p.returncode == status, err
        facts.append(told(out)[-1])
    return facts


def steps_of(path):
    with Run(path, read_only=True) as run:
        return [s["step"] for s in run.steps(verify=True) if s["verified"]]


@pytest.mark.parametrize("whom", [[0, 1, 2], [0], [2]])
@pytest.mark.parametrize("agree", [1, 8])
def test_a_signal_to_any_process_saves_one_step_of_all(tmp_path, whom, agree):
    store, processes, at = guarded(tmp_path, 3, "ddp", agree)
    assert at == [0, 0, 0]
    for rank in whom:
        processes[rank].send_signal(signal.SIGTERM)
    facts = ended(processes, 143)
    (step,) = steps_of(tmp_path)
    assert [f["last"] for f in facts] == [step] * 3 and step % agree == 0
    print(f"{max(f['each'] for f in facts) * 1e6:.0f} us for a step of the guard")
    # USR1 to one, and all go on; then to all, which are one or two steps
    store, processes, at = guarded(tmp_path, 3, "ddp", agree)
    assert at == [step] * 3
    processes[whom[0]].send_signal(signal.SIGUSR1)
    time.sleep(1)
    assert all(p.poll() is None for p in processes) and len(steps_of(tmp_path)) == 2
    for p in processes:
        p.send_signal(signal.SIGUSR1)
    time.sleep(1)
    assert 3 <= len(steps_of(tmp_path)) <= 4
    processes[whom[-1]].send_signal(signal.SIGTERM)
    facts = ended(processes, 143)
    assert {f["last"] for f in facts} == {steps_of(tmp_path)[-1]}
    del store


def test_a_signal_to_one_within_a_save(tmp_path):
    dice, last = random.Random(3), 0
    for kill in range(5):
        store, processes, at = guarded(tmp_path, 2, "ddp", 1, 1)  # saves every step
        assert at == [last] * 2
        time.sleep(dice.uniform(0, 0.3))
        processes[kill % 2].send_signal(signal.SIGTERM)
        facts = ended(processes, 143)
        assert {f["last"] for f in facts} == {steps_of(tmp_path)[-1]}
        last = facts[0]["last"]
        del store


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_a_guard_waits_for_is_named(tmp_path, how):
    store, processes, _ = guarded(tmp_path, 3, "ddp", 1)
    processes[1].send_signal(how)
    facts = [f for p in (processes[0], processes[2]) for f in told(p.communicate(timeout=60)[0])]
    processes[1].kill()
    processes[1].communicate()
    errors = [f for f in facts if "error" in f]
    assert sorted(f["rank"] for f in errors) == [0, 2]
    for f in errors:
        assert f["status"] == "SFT_E_TIMEOUT" and f["error"].endswith("rank 1"), f
        assert f["after"] < 2 * 2 + 6
    assert steps_of(tmp_path) == []
    del store


def test_a_guard_of_processes_that_are_at_odds(tmp_path):
    facts = job(3, "at_odds", tmp_path)
    for rank in range(3):
        step, left = [f for f in facts if f["rank"] == rank]
        assert (
            step["error"].startswith("rank 1 is at step 3, and rank 0 is at step 2")
            and step["status"] == "SFT_E_MISMATCH"
        )
        (told_,) = [t for t in left["told"] if "one of many processes saves nothing" in t]
        assert told_.endswith("the newest step is 1")
        assert "'x'" in left["error"] if rank == 1 else left["error"].endswith("rank 1")
    assert steps_of(tmp_path) == [1]
