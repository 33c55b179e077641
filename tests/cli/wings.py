#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""wings.py --tool PATH [--opened NAME,...]: the tool where the libraries of its wings are not installed. What only a wing
could tell is exit status 3 with the library's name, in every command; it is never a verdict on the file. --opened: wings that
this build opens besides remote (import, checkpoint: where shared libraries are built)."""

import argparse
import glob
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile

URL = "https://host.invalid/model.safetensors"
COMMANDS = [
    ["ls", "{}"],
    ["ls", "--json", "{}"],
    ["show", "{}"],
    ["check", "{}"],
    ["check", "--strict", "{}"],
    ["check", "--json", "{}"],
    ["get", "{}", "a", "-o", "-"],
    ["meta", "{}"],
    ["cp", "{}", "new.safetensors"],
    ["diff", "{}", "one.safetensors"],
    ["diff", "one.safetensors", "{}"],
    ["hash", "{}"],
    ["verify", "{}"],
    ["mem", "{}"],
    ["scan", "{}"],
    ["scan", "--json", "{}"],
    ["convert", "{}", "-o", "new.npz"],
    ["split", "{}", "-o", "new", "--max-shard-size", "1MB"],
    ["join", "{}", "-o", "new.safetensors"],
]
FETCH = [["fetch", "{}", "-o", "new.safetensors"]]


def safetensors(path, **tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {
            "dtype": "U8",
            "shape": [len(values)],
            "data_offsets": [len(data), len(data) + len(values)],
        }
        data += bytes(values)
    text = json.dumps(header).encode()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def fault(tool, arguments, library, env):
    """What is wrong with the answer, or None."""
    before = sorted(os.listdir("."))
    done = subprocess.run(
        [tool, *arguments], capture_output=True, text=True, env=env, timeout=120, stdin=subprocess.DEVNULL
    )
    told = done.stdout + done.stderr
    if done.returncode != 3:
        return f"exit status {done.returncode}: {told}"
    if library not in told or ": invalid" in done.stdout or '"valid": true' in done.stdout:
        return f"no word of {library}: {told}"
    if "harmless" in done.stdout or sorted(os.listdir(".")) != before:
        return f"a verdict, or files: {told} {os.listdir('.')}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--opened", default="")
    given = parser.parse_args()
    opened = [name for name in given.opened.split(",") if name]
    tried, faults = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        alone = os.path.join(scratch, "bin")
        os.mkdir(alone)
        tool = shutil.copy(given.tool, alone)
        for core in glob.glob(
            os.path.join(os.path.dirname(os.path.abspath(given.tool)), "libsafetensors.so*")
        ):
            shutil.copy(core, alone)
        env = {**os.environ, "LD_LIBRARY_PATH": alone, "HOME": scratch}
        os.chdir(scratch)
        safetensors("one.safetensors", a=[1, 2], b=[3])
        with open("old.bin", "wb") as f:
            pickle.dump({"a": 1}, f, protocol=2)
        safetensors("ranks/rank_0/checkpoint_0.safetensors", a=[1, 2])
        safetensors("ranks/rank_1/checkpoint_0.safetensors", a=[3, 4])
        # Where a command needs two of them it may ask for either first.
        wanted = [
            (
                c,
                u,
                "libsafetensors-"
                if opened and c[0] in ("scan", "convert", "split", "join")
                else "libsafetensors-remote",
            )
            for c in COMMANDS + FETCH
            for u in (URL, "hf://org/repo", "s3://bucket/key")
        ]
        if "import" in opened:
            wanted += [
                (c, "old.bin", "libsafetensors-" if c[0] in ("split", "join") else "libsafetensors-import")
                for c in COMMANDS
            ]
        if "checkpoint" in opened:
            wanted += [
                (c, "ranks", "libsafetensors-checkpoint")
                for c in (
                    ["ls", "{}"],
                    ["check", "{}"],
                    ["join", "{}", "-o", "new.safetensors"],
                    ["verify", "{}"],
                    ["cp", "{}", "new.safetensors"],
                    ["reshard", "{}", "-o", "new", "--target-layout", "layout.json"],
                    ["resume-point", "{}"],
                    ["dedupe", "{}", "-o", "new"],
                )
            ]
        for command, operand, library in wanted:
            arguments = [word.format(operand) for word in command]
            tried += 1
            why = fault(tool, arguments, library, env)
            faults += [f"{' '.join(arguments)}: {why}"] if why else []
        if len(opened) == 2:  # the library of ranks is there, that of other formats is not
            more = os.path.join(scratch, "more")
            shutil.copytree(alone, more)
            for library in glob.glob(
                os.path.join(os.path.dirname(os.path.abspath(given.tool)), "libsafetensors-checkpoint.so*")
            ):
                shutil.copy(library, more)
            for step in (1, 2):
                safetensors(f"run/checkpoint-{step}/model.safetensors", a=[1, 2])
                with open(f"run/checkpoint-{step}/trainer_state.json", "w") as f:
                    f.write("{}")
            os.rename("run/checkpoint-2/model.safetensors", "run/model")
            shutil.copy("old.bin", "run/checkpoint-2/pytorch_model.bin")
            for arguments in (["resume-point", "run"], ["resume-point", "--json", "run"]):
                why = fault(
                    os.path.join(more, "safetensors"),
                    arguments,
                    "libsafetensors-import",
                    {**env, "LD_LIBRARY_PATH": more},
                )
                tried += 1
                faults += [f"{' '.join(arguments)}, ranks alone: {why}"] if why else []
            os.remove("run/checkpoint-2/pytorch_model.bin")
            os.rename("run/model", "run/checkpoint-2/model.safetensors")
            done = subprocess.run(
                [os.path.join(more, "safetensors"), "resume-point", "run"],
                capture_output=True,
                text=True,
                env={**env, "LD_LIBRARY_PATH": more},
            )
            if done.stdout != "checkpoint-2\n" or done.stderr:
                faults.append(f"resume-point of safetensors alone: {done}")
        plain = subprocess.run([tool, "check", "one.safetensors"], capture_output=True, text=True, env=env)
        if plain.returncode != 0:
            faults.append(f"check of a plain file: {plain}")
    print("\n".join([*faults, f"{tried} commands without a wing, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
