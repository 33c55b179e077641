#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""no_libcurl.py --tool PATH: the tool alone in a directory, on a system without libcurl. What only a server could tell is
exit status 3 with the library's name, in every command; it is never a verdict on the file. All else works as ever."""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

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
NPY = (
    b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}".ljust(117)
    + b"\n\1\2"
)
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


def fault(tool, arguments, env):
    """What is wrong with the answer, or None."""
    before = sorted(os.listdir("."))
    done = subprocess.run(
        [tool, *arguments], capture_output=True, text=True, env=env, timeout=120, stdin=subprocess.DEVNULL
    )
    told = done.stdout + done.stderr
    if done.returncode != 3:
        return f"exit status {done.returncode}: {told}"
    if "libcurl" not in told or ": invalid" in done.stdout or '"valid": true' in done.stdout:
        return f"no word of libcurl: {told}"
    if "harmless" in done.stdout or sorted(os.listdir(".")) != before:
        return f"a verdict, or files: {told} {os.listdir('.')}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    given = parser.parse_args()
    tried, faults = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        alone = os.path.join(scratch, "bin")
        os.mkdir(alone)
        tool = shutil.copy(given.tool, alone)
        for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
            open(os.path.join(alone, name), "wb").close()  # no library, and the search ends here
        env = {**os.environ, "LD_LIBRARY_PATH": alone, "HOME": scratch}
        os.chdir(scratch)
        safetensors("one.safetensors", a=[1, 2], b=[3])
        with zipfile.ZipFile("old.npz", "w") as z:
            z.writestr("a.npy", NPY)
        safetensors("ranks/rank_0/checkpoint_0.safetensors", a=[1, 2])
        safetensors("ranks/rank_1/checkpoint_0.safetensors", a=[3, 4])
        wanted = [
            (command, url)
            for command in COMMANDS + FETCH
            for url in (URL, "hf://org/repo", "s3://bucket/key")
        ]
        for command, operand in wanted:
            arguments = [word.format(operand) for word in command]
            tried += 1
            why = fault(tool, arguments, env)
            faults += [f"{' '.join(arguments)}: {why}"] if why else []
        for arguments in (["check", "one.safetensors"], ["ls", "old.npz"], ["hash", "one.safetensors"]):
            done = subprocess.run([tool, *arguments], capture_output=True, text=True, env=env)
            faults += [f"{' '.join(arguments)}: {done}"] if done.returncode != 0 else []
    print("\n".join([*faults, f"{tried} commands without libcurl, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
