# SPDX-License-Identifier: Apache-2.0 OR MIT
"""scene.py - what kept.py, moments.py, hidden.py and checkpoint/older.py have in common: models made and read by Python alone,
and a table of the tool's commands, reading and writing, over them. Standard library only; no code of the project.
"""

import collections
import json
import os
import random
import struct
import subprocess
import zipfile

FAULTS = []
CHECKS = collections.Counter()


def check(good, *what):
    CHECKS["checks"] += 1
    if not good:
        FAULTS.append(" ".join(str(w) for w in what))
        print("FAULT", *[str(w)[:3000] for w in what])


def weights(tensors, metadata=None, backwards=False):
    """backwards: entries do not stand in the order of their data, of which strict readers warn."""
    header, body = ({"__metadata__": metadata} if metadata else {}), b""
    for name, value in tensors.items():
        header[name] = {
            "dtype": "U8",
            "shape": [len(value)],
            "data_offsets": [len(body), len(body) + len(value)],
        }
        body += value
    if backwards:
        header = dict(reversed(header.items()))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def read_weights(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    end = max([v["data_offsets"][1] for k, v in header.items() if k != "__metadata__"], default=0)
    if len(data) != 8 + n + end:
        raise ValueError("%s: %d bytes, its header says %d" % (path, len(data), 8 + n + end))
    return {
        k: data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]]
        for k, v in header.items()
        if k != "__metadata__"
    }


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def shards(folder, tensors, count, stem="model"):
    names, table = sorted(tensors), {}
    for i in range(count):
        file = "%s-%05d-of-%05d.safetensors" % (stem, i + 1, count)
        part = {n: tensors[n] for n in names[i * len(names) // count : (i + 1) * len(names) // count]}
        put(os.path.join(folder, file), weights(part))
        table.update({n: file for n in part})
    put(
        os.path.join(folder, stem + ".safetensors.index.json"),
        json.dumps({"metadata": {"total_size": 1}, "weight_map": table}),
    )


def ranks(folder, tensors, count):
    """Each tensor cut along its only dimension."""
    items = {}
    for r in range(count):
        part = {}
        for name, value in tensors.items():
            n = len(value) // count
            part[name] = value[r * n : (r + 1) * n]
            items[name] = {"mesh": [count], "shape": [len(value)], "cut": [[0]]}
        put(os.path.join(folder, "rank_%d" % r, "model.safetensors"), weights(part))
    return items


def model(seed, size, count=8):
    rng = random.Random(seed)
    return {"t%d" % i: rng.randbytes(size) for i in range(count)}


def torch_zip(tensors):
    """What torch.save writes of a dict of byte tensors, in the least of a pickle."""

    def name(text):
        raw = text.encode()
        return b"X" + struct.pack("<I", len(raw)) + raw

    def number(value):
        return b"J" + struct.pack("<i", value)

    text = b"\x80\x02}("
    for i, (key, value) in enumerate(tensors.items()):
        text += (
            name(key)
            + b"ctorch._utils\n_rebuild_tensor_v2\n("
            + b"("
            + name("storage")
            + b"ctorch\nByteStorage\n"
        )
        text += (
            name(str(i))
            + name("cpu")
            + number(len(value))
            + b"tQ"
            + number(0)
            + number(len(value))
            + b"\x85"
            + number(1)
        )
        text += b"\x85\x89ccollections\nOrderedDict\n)RtR"
    text += b"u."
    return text


def write_torch(path, tensors):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        z.writestr("archive/data.pkl", torch_zip(tensors))
        for i, value in enumerate(tensors.values()):
            z.writestr("archive/data/%d" % i, value)
        z.writestr("archive/version", "3\n")


def run(tool, *args, **more):
    return subprocess.run([tool, *args], capture_output=True, text=True, errors="replace", **more)
