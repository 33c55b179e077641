#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""mpi.py commands|faults|kills|checkpoint|torch - safetensors-mpi, and a program of MPI ranks, under mpirun.

commands: what any number of ranks writes is what one process writes, byte by byte. faults: one rank that fails
fails all, nothing appears, all ranks end alike, and the next run goes on. kills: the same for ranks that are killed
at random times. checkpoint: sets that a program saves and loads; run: runs that others go on with; torch: and that PyTorch reads. Standard library only, torch excepted.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

SIZES = {"BF16": 2, "F32": 4, "U8": 1}
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
    "OMPI_MCA_plm_rsh_agent": "",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
# Says which rank it is, and keeps every rank's exit status.
WRAPPER = """
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}
%s
"$@"
status=$?
echo $status >"$STATUS_FOLDER/$rank"
exit $status
"""


# Of rank 1, in blocks of 512 bytes: MPI itself must not need larger ones, nor a signal end the process.
SMALL_FILES = "export OMPI_MCA_btl=self,tcp; if [ $rank = 1 ]; then trap '' XFSZ; ulimit -f %d; fi"


class Failure(Exception):
    pass


def check(condition: bool, text: str) -> None:
    if not condition:
        raise Failure(text)


def write_model(path: str, tensors: dict[str, tuple[str, list[int]]], seed: int = 1) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = SIZES[dtype]
        for n in shape:
            size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + random.Random(seed).randbytes(at))


def layout(path: str, ranks: int, names: tuple[str, str, str] = ("*.rows", "*.columns", "*.grid")) -> str:
    """Rows in chunks, columns in chunks, a grid; the rest whole."""
    two = 2 if ranks % 2 == 0 else 1
    cut = {"split": "chunk"}
    both = ["dp", "tp"]
    entries = [
        {"pattern": names[0], "cuts": [{"by": both, **cut}, None]},
        {"pattern": names[1], "cuts": [None, {"by": both, **cut}]},
        {"pattern": names[2], "cuts": [{"by": "dp", **cut}, {"by": "tp", **cut}]},
    ]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(
            {
                "format": "safetensors-layout",
                "version": 1,
                "tensors": entries,
                "mesh": {"axes": {"dp": two, "tp": ranks // two}},
            },
            f,
        )
    return path


def files_of(folder: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(b, n), folder) for b, _, names in os.walk(folder) for n in names
    )


def same(a: str, b: str) -> None:
    if os.path.isfile(a):
        check(os.path.isfile(b) and filecmp.cmp(a, b, shallow=False), f"{a} and {b} differ")
        return
    check(files_of(a) == files_of(b), f"{a}: {files_of(a)}; {b}: {files_of(b)}")
    for name in files_of(a):
        check(
            filecmp.cmp(os.path.join(a, name), os.path.join(b, name), shallow=False),
            f"{name} in {a} and {b} differs",
        )


class Bench:
    def __init__(self, args: argparse.Namespace, folder: str) -> None:
        self.args = args
        self.folder = folder
        self.statuses = os.path.join(folder, "statuses")
        self.runs = 0

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def one(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.args.tool, *arguments], capture_output=True, text=True, cwd=self.folder)

    def command(self, ranks: int, arguments: tuple[str, ...], prologue: str = "") -> list[str]:
        return [self.args.mpirun, "-n", str(ranks), "sh", "-c", WRAPPER % prologue, "wrapper", *arguments]

    def start(self, ranks: int, *arguments: str, prologue: str = "") -> subprocess.Popen[str]:
        shutil.rmtree(self.statuses, ignore_errors=True)
        os.mkdir(self.statuses)
        self.runs += 1
        return subprocess.Popen(
            self.command(ranks, arguments, prologue),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**ENVIRONMENT, "STATUS_FOLDER": self.statuses, "MPI_TOOL": self.args.mpi_tool},
        )

    def run(self, ranks: int, *arguments: str, prologue: str = "") -> subprocess.CompletedProcess[str]:
        p = self.start(ranks, *arguments, prologue=prologue)
        try:
            out, err = p.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            p.kill()
            raise Failure(f"{arguments} with {ranks} ranks hangs") from None
        return subprocess.CompletedProcess(arguments, p.returncode, out, err)

    def mpi(self, ranks: int, *arguments: str, prologue: str = "") -> subprocess.CompletedProcess[str]:
        return self.run(ranks, self.args.mpi_tool, *arguments, prologue=prologue)

    def ended(self) -> dict[int, int]:
        found = {}
        for name in os.listdir(self.statuses):
            with open(os.path.join(self.statuses, name), encoding="ascii") as f:
                text = f.read()
            if text:  # mpirun may end the others while they write theirs
                found[int(name)] = int(text)
        return found

    def all_fail(
        self, r: subprocess.CompletedProcess[str], ranks: int, status: int, words: str, target: str
    ) -> None:
        check(r.returncode != 0, f"mpirun gives 0: {r.args}")
        # mpirun may put words of its own before or behind a rank's line: where lines begin is not counted on
        told = [m for m in r.stderr.split("safetensors-mpi: ")[1:] if ": warning: " not in m]
        check(len(told) == 1 and words in told[0], f'expected one message with "{words}": {r.stderr}')
        ended = self.ended()  # mpirun may end the others once one has gone
        check(len(ended) > 0 and set(ended.values()) == {status}, f"ranks ended with {ended}, not {status}")
        check(len(ended) <= ranks and not os.path.exists(self.path(target)), f"{target} is there")


MODEL = {
    f"{i}.{kind}": ("BF16", [1031, 257 + 64 * i]) for i in range(4) for kind in ("rows", "columns", "grid")
}
MODEL |= {"bias": ("F32", [1001]), "step": ("F32", [])}


def commands(b: Bench) -> None:
    write_model(b.path("m.safetensors"), MODEL)
    for n in (3, 4):
        layout(b.path(f"{n}.json"), n)
    tasks: dict[str, tuple[str, ...]] = {
        "reshard": ("reshard", "m.safetensors", "--target-layout", "3.json"),
        "again": ("reshard", "one-reshard", "--target-layout", "4.json"),
        "split": ("split", "m.safetensors", "--max-shard-size", "3MB"),
        "join": ("join", "one-reshard"),
        "slice": ("slice", "m.safetensors", "--layout", "4.json", "--rank", "1"),
    }
    help_text = b.one("--help").stdout
    if " dedupe " in help_text:
        tasks["dedupe"] = ("dedupe", "one-again")
        tasks["expand"] = ("expand", "one-dedupe")
    for name, arguments in tasks.items():
        suffix = ".safetensors" if name in ("join", "slice") else ""
        r = b.one(*arguments, "-o", f"one-{name}{suffix}")
        check(r.returncode == 0, r.stderr)
        for ranks in (1, 2, 3, 8):
            target = f"{name}-{ranks}{suffix}"
            r = b.mpi(ranks, *arguments, "-o", target, "--json", "--no-sync", "--verify")
            check(r.returncode == 0, f"{name} with {ranks} ranks: {r.stderr}")
            told = json.loads(r.stdout)  # one object: rank 0 speaks for all
            check(told["published"] is True and told["bytes_kept"] == 0, r.stdout)
            same(b.path(f"one-{name}{suffix}"), b.path(target))
            (os.remove if suffix else shutil.rmtree)(b.path(target))
        one = b.one(*arguments, "-o", "plan", "--plan")
        many = b.mpi(3, *arguments, "-o", "plan", "--plan")
        check(
            one.stdout == many.stdout and many.returncode == 0, f"{name} --plan: {many.stdout}{many.stderr}"
        )
    for name in ("reshard", "join"):
        suffix = ".safetensors" if name == "join" else ""
        told = ("-o", f"rec-one{suffix}", "--record", "crc32c,sha256")
        check(b.one(*tasks[name], *told).returncode == 0, f"{name} --record")
        for ranks in (2, 3, 8):
            r = b.mpi(ranks, *tasks[name], "-o", f"rec-{ranks}{suffix}", *told[2:], "--no-sync")
            check(r.returncode == 0, f"{name} --record with {ranks} ranks: {r.stderr}")
            same(b.path(f"rec-one{suffix}"), b.path(f"rec-{ranks}{suffix}"))
        for path in files_of(b.path("rec-one")) if name == "reshard" else ():
            if path.endswith(".safetensors"):
                check(b.one("verify", os.path.join("rec-one", path)).returncode == 0, f"digests of {path}")
        check(
            name == "reshard" or b.one("verify", "rec-one.safetensors").returncode == 0,
            "digests of a joined file",
        )
    verify(b)
    r = b.mpi(2, "--version")
    check(r.stdout.startswith("safetensors-mpi ") and r.stdout.count("\n") == 1, r.stdout)
    r = b.mpi(2, "ls", "m.safetensors")
    check(b.ended() == {0: 2, 1: 2} or set(b.ended().values()) == {2}, f"{b.ended()}")
    check(r.stderr.count("done by one process") == 1, r.stderr)


def verify(b: Bench) -> None:
    """Each rank reads a share; what is told is what one process tells."""
    shutil.copy(b.path("m.safetensors"), b.path("d.safetensors"))
    check(b.one("verify", "--record", "crc32c", "d.safetensors").returncode == 0, "recording")
    for damaged in (False, True):
        if damaged:
            size = os.path.getsize(b.path("d.safetensors"))
            with open(b.path("d.safetensors"), "r+b") as f:
                for part in (3, 4, 7):
                    f.seek(size * part // 8)
                    f.write(b"damage")
        for arguments in (("d.safetensors",), ("--same", "m.safetensors", "d.safetensors", "one-reshard")):
            one = b.one("verify", "--json", *arguments)
            for ranks in (1, 2, 3, 8):
                many = b.mpi(ranks, "verify", "--json", *arguments)
                check(many.stdout == one.stdout, f"{one.stdout}{many.stdout}{many.stderr}")
                check(set(b.ended().values()) == {one.returncode} == {1 if damaged else 0}, f"{b.ended()}")
    r = b.mpi(3, "verify", "nowhere")
    check(set(b.ended().values()) == {3} and r.stderr.count("nowhere: ") == 1, r.stderr)
    r = b.mpi(2, "verify", "--replicas", "one-reshard")
    check(set(b.ended().values()) == {2} and "one process" in r.stderr, r.stderr)


def faults(b: Bench) -> None:
    write_model(b.path("m.safetensors"), MODEL)
    layout(b.path("l.json"), 3)
    job = ("--target-layout", "l.json", "--no-sync")
    check(b.one("reshard", "m.safetensors", *job, "-o", "one").returncode == 0, "one process")
    tool = b.args.mpi_tool

    r = b.mpi(3, "reshard", "nowhere", *job, "-o", "out")
    b.all_fail(r, 3, 3, "nowhere: cannot open", "out")
    # only one rank cannot open it: it says why itself, with its number, and rank 0 names it, too
    r = b.run(
        3,
        "sh",
        "-c",
        'if [ "${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}" = 1 ]; then cd /; fi\nexec "$0" "$@"',
        tool,
        "reshard",
        b.path("m.safetensors"),
        *job[:1],
        "l.json",
        *job[2:],
        "-o",
        b.path("out"),
    )
    check(r.returncode != 0 and not os.path.exists(b.path("out")), r.stderr)
    check("safetensors-mpi: rank 1: l.json" in r.stderr, r.stderr)
    check(set(b.ended().values()) == {3}, f"{b.ended()}")

    # a rank that sees another file of that name
    other = b.path("other")
    os.mkdir(other)
    write_model(os.path.join(other, "m.safetensors"), MODEL, seed=2)
    shutil.copy(b.path("l.json"), other)
    os.utime(os.path.join(other, "m.safetensors"), (1, 1))
    r = b.mpi(
        3,
        "reshard",
        "m.safetensors",
        *job,
        "-o",
        b.path("out"),
        prologue=f'if [ $rank = 2 ]; then cd "{other}"; fi',
    )
    b.all_fail(r, 3, 1, 'rank 2 sees another "m.safetensors" than rank 0: time of change', "out")
    write_model(os.path.join(other, "m.safetensors"), {**MODEL, "more": ("U8", [5])})
    r = b.mpi(
        3,
        "reshard",
        "m.safetensors",
        *job,
        "-o",
        b.path("out"),
        prologue=f'if [ $rank = 1 ]; then cd "{other}"; fi',
    )
    b.all_fail(r, 3, 1, "rank 1 has another job than rank 0: 45 tensors, not 42", "out")

    # a rank whose disk is full: files may not grow there
    r = b.mpi(3, "reshard", "m.safetensors", *job, "-o", "out", prologue=SMALL_FILES % 300)
    b.all_fail(r, 3, 3, "rank 1: cannot make", "out")
    r = b.mpi(3, "reshard", "m.safetensors", *job, "-o", "out")
    check(r.returncode == 0, r.stderr)
    same(b.path("one"), b.path("out"))
    r = b.mpi(2, "reshard", "m.safetensors", *job, "-o", "out")
    check(r.stderr.count("is there already") == 1 and set(b.ended().values()) == {3}, r.stderr)
    same(b.path("one"), b.path("out"))
    r = b.mpi(2, "reshard", "m.safetensors", *job, "-o", "out", "--task", "1/2")
    check(set(b.ended().values()) == {2} and "no tasks" in r.stderr, r.stderr)


def ranks_of(mpirun: int) -> list[int]:
    """The tool's processes below this mpirun."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as f:
                    text = f.read()
            except OSError:
                continue
            names[int(entry)] = text[text.index("(") + 1 : text.rindex(")")]
            parents[int(entry)] = int(text[text.rindex(")") + 2 :].split()[1])

    def below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == mpirun:
                return True
        return False

    return sorted(
        p for p, n in names.items() if n.startswith(("safetensors-mp", "example_mpi_tra")) and below(p)
    )


def wait_for_staging(p: subprocess.Popen[str], staging: str) -> bool:
    while p.poll() is None:
        if os.path.exists(staging):
            return True
        time.sleep(0.001)
    return False


def end_of(p: subprocess.Popen[str]) -> tuple[str, str]:
    """What it has said. Open MPI 4's mpirun now and then hangs in its own last steps when a rank was killed and all
    the others have gone, too; it is ended then. A rank that hangs is a failure."""
    for _ in range(60):
        try:
            return p.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            if not ranks_of(p.pid):
                p.kill()
    raise Failure("a rank hangs")


def kills(b: Bench) -> None:
    model = {f"{i}.{kind}": ("BF16", [2048, 2048]) for i in range(4) for kind in ("rows", "columns")}
    write_model(b.path("m.safetensors"), model)
    layout(b.path("l.json"), 6)
    arguments = (
        b.args.mpi_tool,
        "reshard",
        "m.safetensors",
        "--target-layout",
        "l.json",
        "-o",
        "out",
        "--jobs",
        "1",
    )
    check(b.one(*arguments[1:5], "-o", "one").returncode == 0, "one process")
    staging = b.path(".out.sft-part")
    # how long the work takes, from the staging folder's first moment
    p = b.start(3, *arguments)
    check(wait_for_staging(p, staging), "no staging folder was seen")
    began = time.monotonic()
    p.communicate()
    length = time.monotonic() - began
    check(p.returncode == 0, "the first run")
    same(b.path("one"), b.path("out"))
    rng = random.Random(20)
    killed = kept = finished = late = 0
    while killed < 30:
        shutil.rmtree(b.path("out"), ignore_errors=True)
        for attempt in range(12):
            ranks = rng.choice((1, 2, 3, 8))
            p = b.start(ranks, *arguments, "--json")
            if attempt < 11 and wait_for_staging(p, staging):
                time.sleep(rng.random() * length * 0.8)
                pids = ranks_of(p.pid)
                if pids:
                    with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                        os.kill(rng.choice(pids), signal.SIGKILL)
            out, err = end_of(p)
            if p.returncode == 0:
                kept += json.loads(out)["bytes_kept"] > 0
                finished += 1
                break
            killed += 1
            if os.path.exists(b.path("out")):  # after the rename: then it is there with everything
                late += 1
                b.run(2, *arguments)  # removes the journals, or finds the target finished
                break
        check(p.returncode == 0 or os.path.exists(b.path("out")), f"it does not come to an end: {err}")
        same(b.path("one"), b.path("out"))
        check(not os.path.exists(staging), "the staging folder is left")
    check(kept > 0, "no run went on where a killed one was")
    print(
        f"{killed} runs killed, {finished} finished, {kept} of these went on from a journal; {late} killed after the rename"
    )


def checkpoint(b: Bench) -> None:
    example = b.args.example
    contents = set()
    for ranks in (1, 2, 4):
        folder = f"step_{ranks}"
        r = b.run(ranks, example, "save", folder)
        check(r.returncode == 0, f"save by {ranks}: {r.stderr}")
        check(
            sorted(x for x in os.listdir(b.path(folder)) if not x.startswith("shard-"))
            == ["sft-checkpoint.json", "topology.json"],
            f"{os.listdir(b.path(folder))}",
        )
        r = b.one("hash", "--content", folder)
        check(r.returncode == 0, r.stderr)
        contents.add(r.stdout.split()[0])
        marker = json.load(open(b.path(f"{folder}/sft-checkpoint.json"), encoding="utf-8"))
        for name, size in marker["files"].items():
            check(os.path.getsize(b.path(f"{folder}/{name}")) == size, name)
            r = b.one("verify", f"{folder}/{name}")
            check(r.returncode == 0, r.stdout + r.stderr)
        check(
            marker["processes"] == ranks and marker["total_size"] == 4 * (37 * 19 + 21 * 53 + 29), f"{marker}"
        )
        for others in (1, 2, 3, 4, 8):
            r = b.run(others, example, "load", folder)
            check(
                r.returncode == 0 and "load: " in r.stdout, f"save by {ranks}, load by {others}: {r.stderr}"
            )
    check(len(contents) == 1, f"the same weights have several hashes: {contents}")
    r = b.run(2, example, "save", "step_1")
    check(r.returncode != 0 and r.stderr.count("is there already") == 1, r.stderr)
    # a reshard of what was saved, and a load of that
    layout(b.path("l.json"), 3, ("up.*", "down.*", "norm.none"))
    r = b.mpi(2, "reshard", "step_4", "--target-layout", "l.json", "-o", "cut")
    check(r.returncode == 0, r.stderr)
    r = b.run(3, example, "load", "cut")
    check(r.returncode == 0, r.stderr)
    # a shard that is gone is told of by every rank alike
    os.remove(b.path("step_4/shard-00003-model-00001-of-00001.safetensors"))
    r = b.run(3, example, "load", "step_4")
    check(r.returncode != 0 and set(b.ended().values()) == {1}, r.stderr)
    # killed while it saves: nothing is there; the next one clears up
    p = b.start(3, example, "save", "killed", prologue=SMALL_FILES % 1)
    _, err = p.communicate(timeout=300)
    check(p.returncode != 0 and not os.path.exists(b.path("killed")), "a rank that cannot write")
    check("rank 1: " in err and "too large" in err, err)
    check(not os.path.exists(b.path(".killed.sft-part")), "the staging folder is left")
    r = b.run(3, example, "save", "killed")
    check(r.returncode == 0, r.stderr)


def torch(b: Bench) -> None:
    """PyTorch's own reader of distributed checkpoints reads what a program has saved. Needs torch."""
    import torch as t
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageReader

    for ranks in (1, 2, 4):
        r = b.run(ranks, b.args.example, "save", f"step_{ranks}")
        check(r.returncode == 0, r.stderr)
        state = {"up.weight": t.zeros(37, 19), "down.weight": t.zeros(21, 53), "norm.weight": t.zeros(1, 29)}
        dcp.load(state, storage_reader=HuggingFaceStorageReader(b.path(f"step_{ranks}")), no_dist=True)
        for name, value in state.items():
            want = t.arange(value.numel(), dtype=t.float32)
            check(t.equal(value.flatten(), want), f"{name}, saved by {ranks}: torch reads something else")


def run(b: Bench) -> None:
    """A run that four ranks began is gone on with by two, three and four, killed ones too; the program compares every value."""
    at = 0
    for ranks in (4, 2, 3, 4):
        r = b.run(ranks, b.args.example, "run", str(at + 3))
        check(r.returncode == 0 and f"from step {at}\n" in r.stdout, f"{ranks} ranks: {r.stdout}{r.stderr}")
        at += 3
        steps = sorted(n for n in os.listdir(b.path("run")) if n.startswith("step-"))
        check(steps == [f"step-{n:09d}" for n in (at - 2, at - 1, at)], f"{steps}")
        r = b.one("run", "verify", "run")
        check(r.returncode == 0, r.stdout + r.stderr)
    for ranks in (4, 3):
        p = b.start(ranks, b.args.example, "run", "1000000")
        time.sleep(0.8)
        pids = ranks_of(p.pid)
        check(len(pids) == ranks, "the program has ended by itself")
        os.kill(pids[-1], signal.SIGKILL)
        end_of(p)
        check(p.returncode != 0, "a rank was killed, and nobody says so")
        r = b.one("run", "verify", "run")
        check(r.returncode == 0, r.stdout + r.stderr)
        steps = sorted(int(n[5:]) for n in os.listdir(b.path("run")) if n.startswith("step-"))
        r = b.run(2, b.args.example, "run", str(steps[-1] + 1))
        check(r.returncode == 0 and f"from step {steps[-1]}\n" in r.stdout, r.stdout + r.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("theme", choices=("commands", "faults", "kills", "checkpoint", "run", "torch"))
    for name in ("mpirun", "tool", "mpi-tool", "example"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sft-mpi-") as folder:
        b = Bench(args, folder)
        try:
            globals()[args.theme](b)
        except Failure as e:
            print(f"mpi {args.theme}: {e}", file=sys.stderr)
            return 1
        print(f"mpi {args.theme}: {b.runs} runs of mpirun, all as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
