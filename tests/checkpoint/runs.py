#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""runs.py --tool TOOL [--example EXAMPLE] - training runs from outside: a writer and a reader made from docs/run.md alone
(standard library), the tool's `run ls`, `run verify`, `run prune`, `resume-point` and `diff` on what they make, and what the C
library writes (--example) read back here.
"""

import argparse
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import report_page  # noqa: E402
from crc32c import crc32c  # noqa: E402

# ---------------------------------------------------------------- a writer


def weights(tensors):
    header, at, data = {"__metadata__": {"format": "pt"}}, 0, b""
    for name, values in sorted(tensors.items()):
        raw = struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def manifest(run, step, files, metrics, time=1764110512):
    body = {
        "format": "safetensors-run",
        "version": 1,
        "run": run,
        "step": step,
        "time": time,
        "processes": 1,
        "metrics": {k: repr(v) for k, v in metrics.items()},
        "files": {n: {"size": len(d), "crc32c": "%08x" % crc32c(d)} for n, d in sorted(files.items())},
    }
    text = json.dumps(body, indent=2)[:-2].encode() + b",\n"  # without its last line
    return text + b'  "crc32c": "%08x"\n}\n' % crc32c(text)


def write_step(root, run, step, loss):
    values = [step + i / 7 for i in range(50)]
    files = {
        "model.safetensors": weights({"w": values, "b": [1.0]}),
        "optimizer.safetensors": weights({"optimizer.exp_avg.w": values}),
        "config.json": b"{}",
        "state.json": json.dumps(
            {"version": 1, "step": step, "state": {"lr": {"$": "float", "v": repr(0.1 / step)}}}
        ).encode(),
    }
    folder = os.path.join(root, "step-%09d" % step)
    part = os.path.join(root, ".step-%09d.sft-part" % step)
    os.mkdir(part)
    for name, data in files.items():
        with open(os.path.join(part, name), "wb") as f:
            f.write(data)
    with open(os.path.join(part, "manifest.json"), "wb") as f:
        f.write(manifest(run, step, files, {"val_loss": loss}))
    os.rename(part, folder)
    return folder


# ---------------------------------------------------------------- a reader


def read_step(root, name):
    """Everything of a verified step, or an AssertionError."""
    folder = os.path.join(root, name)
    with open(os.path.join(root, "run.json"), encoding="utf-8") as f:
        run = json.load(f)["run"]
    with open(os.path.join(folder, "manifest.json"), "rb") as f:
        text = f.read()
    m = json.loads(text)
    assert m["format"] == "safetensors-run" and m["version"] == 1 and m["run"] == run
    assert name == "step-%09d" % m["step"]
    lines = text.split(b"\n")
    assert lines[-1] == b"" and lines[-2] == b"}", "two lines at the end"
    before = text[: text.rindex(b'  "crc32c"')]
    assert lines[-3] == b'  "crc32c": "%08x"' % crc32c(before)
    assert set(os.listdir(folder)) == set(m["files"]) | {"manifest.json"}
    for file, fact in m["files"].items():
        with open(os.path.join(folder, file), "rb") as f:
            data = f.read()
        assert len(data) == fact["size"] and "%08x" % crc32c(data) == fact["crc32c"], file
    with open(os.path.join(folder, "state.json"), encoding="utf-8") as f:
        state = json.load(f)
    assert state["version"] == 1 and state["step"] == m["step"]
    return m, state["state"]


# ---------------------------------------------------------------- the tool


class Tool:
    def __init__(self, path):
        self.path = path

    def run(self, *args, status=0):
        done = subprocess.run([self.path, *args], capture_output=True, text=True)
        assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
        return done

    def steps(self, root, *args, status=0):
        steps = json.loads(self.run("run", "ls", root, "--json", *args, status=status).stdout)["steps"]
        return {s["step"]: s for s in steps}


def lists(tool, root):
    steps = tool.steps(root, "--keep-last", "1", "--best", "val_loss")
    assert sorted(steps) == [2, 10, 100, 1000], "order is by number"
    assert [s["kept"] for _, s in sorted(steps.items())] == [[], ["best"], [], ["newest", "last"]]
    assert all(s["complete"] and s["verified"] is None for s in steps.values())
    assert steps[10]["metric"] == {"val_loss": 0.25} and steps[10]["time"] == 1764110512
    assert steps[10]["bytes"] == steps[10]["own_bytes"] > 400
    text = tool.run("run", "ls", root).stdout
    assert [line.split()[0] for line in text.splitlines()] == ["STEP", "2", "10", "100", "1000"], text
    tool.run("run", "verify", root)
    assert "verified" in tool.run("run", "verify", root, "--step", "10").stdout
    tool.run("run", "verify", root, "--step", "11", status=1)
    tool.run("run", "ls", root, "--mode", "max", status=2)
    tool.run("run", "ls", os.path.join(root, "none"), status=1)
    tool.run("run", "look", root, status=2)
    assert tool.run("resume-point", root).stdout == "step-000001000\n"
    for name in ("step-20000", "copy-000030000", "step-0000000000040000"):  # no names of steps
        shutil.copytree(os.path.join(root, "step-000000010"), os.path.join(root, name))
    assert tool.run("resume-point", root).stdout == "step-000001000\n"
    for name in ("step-20000", "copy-000030000", "step-0000000000040000"):
        shutil.rmtree(os.path.join(root, name))
    told = os.path.join(root, "run.json")
    with open(told, encoding="utf-8") as f:
        text = f.read()
    with open(told, "w", encoding="utf-8") as f:
        f.write(text.replace('"version": 1', '"version": 2'))
    assert "version" in tool.run("resume-point", root, status=2).stderr
    with open(told, "w", encoding="utf-8") as f:
        f.write(text)
    for more in ((), ("--dry-run",)):
        said = tool.run("run", "prune", root, "--best", "val_los", *more, status=1).stderr
        assert "val_los" in said and "val_loss" in said, said
    assert sorted(tool.steps(root)) == [2, 10, 100, 1000]


def differences(tool, root):
    a, b = os.path.join(root, "step-000000010"), os.path.join(root, "step-000001000")
    text = tool.run("diff", a, b, status=1).stdout
    assert "optimizer.exp_avg.w" in text and "~ w" in text, text
    tool.run("diff", a, a)
    page = os.path.join(root, "..", "diff.html")
    tool.run("diff", a, b, "--report", page, status=1)
    told = report_page.load_diff(page)
    state = {e["key"]: (e["a"], e["b"]) for e in told["states"]}
    assert set(state) == {"lr"} and repr(0.1 / 10) in state["lr"][0] and repr(0.1 / 1000) in state["lr"][1], (
        state
    )
    assert {r["name"]: r["change"] for r in told["rows"]}["w"] == "values"
    for name in ("state.json", "manifest.json", "config.json", "model.safetensors"):
        tool.run("diff", a, b, "--report", os.path.join(b, name), "-f", status=2)
    tool.run("diff", b, b)
    assert "optimizer.exp_avg.w" in tool.run("ls", a).stdout


def damage(tool, root):
    """What is wrong with a step is said, and an older one is taken."""
    newest = os.path.join(root, "step-000001000")
    kept = os.path.join(root, "kept")
    shutil.copytree(newest, kept)

    def cases():
        with open(os.path.join(newest, "optimizer.safetensors"), "r+b") as f:
            f.truncate(100)
        yield "has 100 bytes", False
        os.unlink(os.path.join(newest, "state.json"))
        yield "state.json is missing", False
        with open(os.path.join(newest, "model.safetensors"), "r+b") as f:
            f.seek(-3, 2)
            f.write(b"\xff")
        yield "model.safetensors is damaged", True
        os.unlink(os.path.join(newest, "manifest.json"))
        yield "there is no manifest.json", False
        with open(os.path.join(newest, "manifest.json"), "r+b") as f:
            f.seek(20)
            f.write(b"x")
        yield "manifest.json", False

    for words, by_digest in cases():
        done = tool.run("run", "verify", root, status=1)
        assert words in done.stderr, (words, done.stderr)
        if not by_digest:
            done = tool.run("resume-point", root)
            assert done.stdout == "step-000000100\n" and words in done.stderr, (words, done)
            assert not tool.steps(root)[1000]["complete"]
        shutil.rmtree(newest)
        shutil.copytree(kept, newest)
    shutil.rmtree(kept)


def prunes(tool, root):
    def names():
        return sorted(n for n in os.listdir(root) if n.startswith("step-"))

    before = names()
    tool.run("run", "prune", root, status=2)
    done = tool.run("run", "prune", root, "--keep-every", "100", "--dry-run")
    assert done.stdout.split() == ["step-000000002", "step-000000010"] and names() == before
    with open(os.path.join(root, ".sft-run.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "locked" in tool.run("run", "prune", root, "--keep-last", "1", status=3).stderr
    other = write_step(root, "ff" * 16, 1, 9.0)
    done = tool.run("run", "prune", root, "--keep-every", "100")
    assert names() == ["step-000000001", "step-000000100", "step-000001000"], names()
    shutil.rmtree(other)
    os.mkdir(os.path.join(root, "step-000000007"))  # incomplete, and older
    os.mkdir(os.path.join(root, "step-000002000"))  # incomplete, and newer
    tool.run("run", "prune", root, "--keep-last", "1")
    assert names() == ["step-000001000", "step-000002000"], names()


def written_by_the_library(tool, example, root):
    subprocess.run([example, root, "50"], check=True, capture_output=True)
    names = sorted(n for n in os.listdir(root) if n.startswith("step-"))
    assert names[-1] == "step-000000050"
    for name in names:
        m, state = read_step(root, name)
        assert state["rng"] == {"$": "tensor", "v": "state.rng"} and state["task"] == "find i"
        assert float(state["rate"]["v"]) == 0.005 * 0.999 ** m["step"] or state["rate"]["$"] == "float"
    with open(os.path.join(root, "latest"), encoding="utf-8") as f:
        assert f.read() == "step-000000050\n"
    tool.run("run", "verify", root)


def older_trainers(tool, root):
    """accelerate's directories."""
    for n in (1, 2):
        folder = os.path.join(root, "checkpoint_%d" % n)
        os.makedirs(folder)
        for name, data in (("model.safetensors", weights({"w": [1.0]})), ("optimizer.bin", b"x")):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        if n == 1:
            with open(os.path.join(folder, "random_states_0.pkl"), "wb") as f:
                f.write(b"x")
    done = tool.run("resume-point", root)
    assert done.stdout == "checkpoint_1\n" and "random_states_0.pkl" in done.stderr, done


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--tool", required=True)
    args.add_argument("--example")
    args = args.parse_args()
    tool = Tool(args.tool)
    with tempfile.TemporaryDirectory() as base:
        root = os.path.join(base, "run")
        os.mkdir(root)
        run = "0123456789abcdef" * 2
        with open(os.path.join(root, "run.json"), "w", encoding="utf-8") as f:
            json.dump({"format": "safetensors-run", "version": 1, "run": run, "created": 0}, f)
        for step, loss in ((2, 1.5), (1000, 0.75), (10, 0.25), (100, 0.5)):
            write_step(root, run, step, loss)
        for name in os.listdir(root):
            if name.startswith("step-"):
                read_step(root, name)
        lists(tool, root)
        differences(tool, root)
        damage(tool, root)
        prunes(tool, root)
        older_trainers(tool, os.path.join(base, "accelerate"))
        if args.example:
            written_by_the_library(tool, args.example, os.path.join(base, "ours"))
    print("runs: ok")


if __name__ == "__main__":
    sys.exit(main())
