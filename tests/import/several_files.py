#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""several_files.py --tool TOOL - models in several files: what describes them goes with them.

Checkpoints that the installed torch and safetensors wrote, in shards: names that come twice, an index of one file, other names
and metadata of several files. Needs torch and safetensors (tests/requirements.txt).
"""

import json
import os
import shutil
import struct

import numpy
import torch
from runs import CHECKS, program, run
from safetensors import safe_open
from safetensors.torch import load_file, save_file

X = torch.arange(6.0).reshape(2, 3)


def same(path, want):
    got = load_file(path)
    assert got.keys() == want.keys(), (path, got.keys(), want.keys())
    for name, t in want.items():
        assert torch.equal(got[name], t), (path, name)
        CHECKS["tensors"] += 1


def sharded(folder, shards, weight_map=None):
    """torch's shards; weight_map: else each name in the last shard that has it."""
    os.makedirs(folder)
    files = [f"pytorch_model-{i + 1:05}-of-{len(shards):05}.bin" for i in range(len(shards))]
    where = {}
    for file, tensors in zip(files, shards):
        torch.save(tensors, os.path.join(folder, file))
        where.update({name: file for name in tensors})
    where = {name: files[i] for name, i in weight_map.items()} if weight_map else where
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)
    return folder


def one_file(tmp):
    """An index that needs one file only: a model of one file."""
    out = os.path.join(tmp, "one.out")
    want = {"a": X, "c": X + 1}
    for folder in (
        sharded(os.path.join(tmp, "one"), [want]),
        sharded(os.path.join(tmp, "surplus"), [want, {"z": X}], {"a": 0, "c": 0}),
    ):
        run("convert", folder, "-o", out, "-f")
        assert sorted(os.listdir(out)) == ["model.safetensors"], os.listdir(out)
        same(os.path.join(out, "model.safetensors"), want)
        run("convert", folder, "-o", out, "-f", "--verify")
        run("convert", folder, "-o", folder)  # in place
        same(os.path.join(folder, "model.safetensors"), want)


def links(tmp):
    """Out of the directory nothing is followed, whatever names it; within, and in the cache of Hugging Face, links are."""
    shard = "pytorch_model-00001-of-00001.bin"
    indexed, alone = os.path.join(tmp, "indexed"), os.path.join(tmp, "alone")
    snapshot, blobs = (
        os.path.join(tmp, "models--a--b", "snapshots", "1"),
        os.path.join(tmp, "models--a--b", "blobs"),
    )
    sharded(indexed, [{"s": X}])
    for folder in (alone, snapshot, blobs):
        os.makedirs(folder)
    os.rename(os.path.join(indexed, shard), os.path.join(blobs, "0"))
    for link in (os.path.join(indexed, shard), os.path.join(alone, "pytorch_model.bin")):
        folder, out = os.path.dirname(link), os.path.join(tmp, "out")
        os.symlink(os.path.relpath(os.path.join(blobs, "0"), folder), link)
        for how in (["ls", folder], ["convert", folder, "-o", out]):
            assert "is a link that leads out of its directory" in run(*how, want=1).stderr, how
        assert not os.path.exists(out)
        os.unlink(link)
        torch.save({"s": X}, os.path.join(folder, "real"))
        os.symlink("real", link)
        run("ls", folder)
        run("convert", folder, "-o", out, "-f")
        same(os.path.join(out, "model.safetensors"), {"s": X})
        shutil.rmtree(out)
    os.symlink("../../blobs/0", os.path.join(snapshot, "pytorch_model.bin"))
    run("convert", snapshot, "-o", out)
    same(os.path.join(out, "model.safetensors"), {"s": X})


def twice(tmp):
    """Two tensors of one name, one of them another name of a third: refused, and nothing is written."""
    out = os.path.join(tmp, "twice.out")
    two = [{"a": X, "t": X}, {"b": X + 2, "t": X + 7}]
    cases = (two, {"a": 0, "b": 1, "t": 1}), (two, {"a": 0, "b": 1, "t": 0}), (two, {"a": 0, "b": 1})
    for i, (shards, where) in enumerate(cases):
        folder = sharded(os.path.join(tmp, f"twice{i}"), shards, where)
        for options in ([], ["--verify"], ["--plan"]):
            r = run("convert", folder, "-o", out, *options, want=1)
            assert '"t"' in r.stderr, r.stderr
            assert not os.path.exists(out) or os.listdir(out) == [], os.listdir(out)
    # Another name within a shard, and in the index or not: kept
    for i, where in enumerate(({"a": 0, "t": 0, "b": 1}, {"a": 0, "b": 1})):
        folder = sharded(os.path.join(tmp, f"other{i}"), [{"a": X, "t": X}, {"b": X + 2}], where)
        run("convert", folder, "-o", os.path.join(tmp, f"other{i}.out"), "--verify")
        with safe_open(os.path.join(tmp, f"other{i}.out", "model-00001-of-00002.safetensors"), "pt") as f:
            assert f.metadata()["t"] == "a", f.metadata()


def others(path):
    r = json.loads(run("ls", "--json", "--aliases", path).stdout)
    return {a["name"]: a["of"] for a in r["aliases"]}


def value(tmp, path, name):
    run("get", path, name, "-o", os.path.join(tmp, "v.npy"), "-f")
    return torch.from_numpy(numpy.load(os.path.join(tmp, "v.npy")))


def jobs(tmp):
    """split and join of models whose files record other names differently, and of PyTorch's: all names go on."""
    y = X + 10
    z = torch.arange(10.0)
    wanted = {"a": X, "va": X[:1], "b": y, "vb": y[:1], "tb": y, "z1": z[:7], "z2": z[3:]}
    pt = os.path.join(tmp, "jobs.pt")
    torch.save(wanted, pt)
    names = {"va": "a", "vb": "b", "tb": "b", "z1": "sft.storage.0", "z2": "sft.storage.0"}

    def holds(path, r):
        said = json.loads(r.stdout)
        assert (said["aliases"], said["left_out"], said["left_out_parts"]) == (5, 0, []), said
        assert others(path) == names, (path, others(path))
        for name, t in wanted.items():
            assert torch.equal(value(tmp, path, name), t), (path, name)
            CHECKS["names"] += 1

    shards = os.path.join(tmp, "jobs.d")
    os.makedirs(shards)
    model = os.path.join(shards, "model.safetensors")
    holds(shards, run("convert", pt, "-o", model, "--dedup", "alias", "--max-shard-size", 40, "--json"))
    for i, source in enumerate((pt, shards)):
        dedup = ["--dedup", "alias"] if i == 0 else []
        for j, (command, out) in enumerate((("split", f"split{i}"), ("join", f"join{i}.safetensors"))):
            path = os.path.join(tmp, out)
            cut = ["--max-shard-size", 40] if j == 0 else []
            holds(path, run(command, source, "-o", path, "--json", *dedup, *cut))
        path = os.path.join(tmp, f"again{i}.safetensors")
        holds(path, run("join", os.path.join(tmp, f"split{i}"), "-o", path, "--json"))


def storages(tmp):
    """Bytes that only other names show, of two inputs or shards: each has a number of its own, and no tensor of the input its name."""
    z, y = torch.arange(10.0), torch.arange(20.0, 30.0)
    shards = {"z1": z[:7], "z2": z[3:]}, {"y1": y[:7], "y2": y[3:], "own": X}
    folder = sharded(os.path.join(tmp, "storages"), shards)
    wanted = {**shards[0], **shards[1]}
    numbered = {"z1": "sft.storage.0", "z2": "sft.storage.0", "y1": "sft.storage.1", "y2": "sft.storage.1"}

    def holds(path, names=numbered):
        assert others(path) == names, (path, others(path))
        for name, t in wanted.items():
            assert torch.equal(value(tmp, path, name), t), (path, name)
            CHECKS["names"] += 1

    def made(name, *args, names=numbered):
        out = os.path.join(tmp, name)
        run(*args, *([out] if args[0] == "cp" else ["-o", out]), "--json")
        holds(out, names)
        return out

    pts = [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if f.endswith(".bin")]
    sts = [made_one(tmp, i, pt) for i, pt in enumerate(pts)]
    made("two.safetensors", "convert", *pts, "--dedup", "alias", "--verify")
    made("again.safetensors", "convert", *sts, "--verify")
    loose = os.path.join(tmp, "loose")  # without an index
    os.makedirs(loose)
    for i, st in enumerate(sts):
        os.link(st, os.path.join(loose, f"model-0000{i + 1}-of-00002.safetensors"))
    assert "convert FILE FILE ... -o OUT" in run("ls", loose, want=1).stderr
    back = {"z1": "sft.storage.1", "z2": "sft.storage.1", "y1": "sft.storage.0", "y2": "sft.storage.0"}
    made("turned.safetensors", "convert", *reversed(sts), "--verify", names=back)
    for command in "convert", "split", "join", "cp":
        out = made(
            command + ".st",
            command,
            folder,
            "--dedup",
            "alias",
            *(["--verify"] if command == "convert" else []),
        )
        if command == "convert":
            for again in "convert", "split", "join", "cp":
                made(again + ".again.st", again, out)
            made("cut.d", "split", out, "--max-shard-size", 30)
    pt = os.path.join(tmp, "storages.pt")
    run("convert", folder, "-o", pt, "--dedup", "alias", "--verify")
    got = torch.load(pt)
    assert got.keys() == wanted.keys() and all(torch.equal(got[n], t) for n, t in wanted.items()), got.keys()
    for a, b in ("z1", "z2"), ("y1", "y2"):
        assert got[a].untyped_storage().data_ptr() == got[b].untyped_storage().data_ptr(), (a, b)
    # A tensor of the other input, or a name that is asked for, has such a name already
    real = os.path.join(tmp, "real.safetensors")
    save_file({"sft.storage.0": X, "sft.storage.2": X + 1}, real)
    path = os.path.join(tmp, "beside.safetensors")
    for i, inputs in enumerate(([*sts, real], [real, *reversed(sts)])):
        run("convert", *inputs, "-o", path, "-f", "--verify")
        numbers = {n: "sft.storage." + ("31" if i else "13")[n < "z"] for n in "z1 z2 y1 y2".split()}
        holds(path, numbers)
        assert torch.equal(load_file(path)["sft.storage.0"], X) and torch.equal(
            load_file(path)["sft.storage.2"], X + 1
        )
    run("convert", *sts, "-o", path, "-f", "--rename", "own=sft.storage.1")
    assert others(path)["y1"] == "sft.storage.2" and torch.equal(load_file(path)["sft.storage.1"], X), others(
        path
    )
    # No index has such a name: a tensor that is really called so, and shown by none, is still what the index does not know
    wrong = sharded(
        os.path.join(tmp, "unknown"), [{"a": X, "sft.storage.0": X + 1}, {"b": X}], {"a": 0, "b": 1}
    )
    assert "the index says nothing of it" in run("ls", wrong, "--dedup", "alias", want=1).stderr
    r = run("convert", folder, "-o", os.path.join(tmp, "tree.d"), "--tree", want=1)
    assert "2 files, of which each would have a tree" in r.stderr, r.stderr


def parts_in_shards(tmp):
    """Tensors that become several (quantised, sparse): the index has their names, the files the parts'."""
    quantised = torch.quantize_per_tensor(X, 0.5, 0, torch.qint8)
    shards = {"a": X, "m.q": torch.eye(3).to_sparse()}, {"b": quantised, "m.c": X}
    folder = sharded(os.path.join(tmp, "parts"), shards)
    wanted = {
        "a": X,
        "m.c": X,
        "m.q.values": torch.ones(3),
        "m.q.size": torch.tensor([3, 3]),
        "m.q.indices": torch.tensor([[0, 1, 2]] * 2),
        "b": quantised.int_repr(),
        "b.scale": torch.tensor(0.5, dtype=torch.float64),
        "b.zero_point": torch.tensor(0),
    }
    for name, options in ("parts.d", []), ("parts.v", ["--verify"]), ("parts.s", ["--max-shard-size", 60]):
        out = os.path.join(tmp, name)
        run("convert", folder, "-o", out, *options)
        got = {
            n: t
            for f in os.listdir(out)
            if f.endswith(".safetensors")
            for n, t in load_file(os.path.join(out, f)).items()
        }
        assert got.keys() == wanted.keys() and all(torch.equal(got[n], t) for n, t in wanted.items()), (
            got,
            wanted,
        )
        CHECKS["tensors"] += len(got)
    run("join", folder, "-o", os.path.join(tmp, "parts.safetensors"))
    same(os.path.join(tmp, "parts.safetensors"), wanted)
    # What is in no file, in the other one, or no part of what the index names, is still an error
    names = {"a": 0, "m.q": 0, "b": 1, "m.c": 1}
    for i, where in enumerate(
        (
            {**names, "m.z": 1},
            {**names, "m.q": 1},
            {n: f for n, f in names.items() if n != "m.q"},
            {**names, "m": 0},
        )
    ):
        r = run("ls", sharded(os.path.join(tmp, f"parts{i}"), shards, where), want=1)
        assert "the index says" in r.stderr, r.stderr
        CHECKS["wrong indexes"] += 1


def ranks(tmp):
    """Ranks' names of parts of tensors are none of the joined model's: named. Names of whole tensors are, without a word."""
    folder, layout, out = (os.path.join(tmp, n) for n in ("ranks", "layout.json", "joined.safetensors"))
    cut = {"cuts": ["tp", None]}
    cases = (cut, ["part"], True), (cut, [], False), ({"whole": True}, ["part"], False)
    for how, parts, told in cases:
        for i in range(2):
            os.makedirs(os.path.join(folder, f"rank_{i}"), exist_ok=True)
            t = X + (10 * i if how is cut else 0)
            torch.save({"embed": t, "lm_head": t, **{n: t[:1] for n in parts}}, os.path.join(tmp, "rank.pt"))
            run(
                "convert",
                os.path.join(tmp, "rank.pt"),
                "-o",
                os.path.join(folder, f"rank_{i}", "model.safetensors"),
                "-f",
                "--dedup",
                "alias",
            )
        with open(layout, "w", encoding="utf-8") as f:
            json.dump(
                {
                    "format": "safetensors-layout",
                    "version": 1,
                    "mesh": {"axes": {"tp": 2}},
                    "tensors": [{"name": "embed", **how}],
                },
                f,
            )
        r = run("join", folder, "--layout", layout, "-o", out, "-f", "--json")
        left = [
            p["subject"] for p in json.loads(r.stdout)["left_out_parts"] if p["subject"].startswith("sft.")
        ]
        assert left == ["sft.aliases"] * told and "lm_head" not in r.stderr, (how, parts, r.stdout, r.stderr)
        want = {"lm_head": "embed", **({"part": "embed"} if parts and not told else {})}
        assert others(out) == want and torch.equal(
            value(tmp, out, "lm_head"), torch.cat([X, X + 10]) if how is cut else X
        ), others(out)
        CHECKS["ranks"] += 1


def made_one(tmp, i, source):
    out = os.path.join(tmp, f"storage{i}.safetensors")
    run("convert", source, "-o", out, "--dedup", "alias")
    return out


def other_formats(tmp):
    """What only the second file's metadata say is named where the first file's go on."""
    folder = os.path.join(tmp, "said")
    os.makedirs(folder)
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for i, file in enumerate(files):
        save_file(
            {"ab"[i]: X},
            os.path.join(folder, file),
            {"format": "pt", "k": str(i), f"only{i}": "x", "same": "y", "general.architecture": "llama"},
        )
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": {"a": files[0], "b": files[1]}}, f)
    for ending in "gguf", "npz", "pt", "ckpt":
        said = json.loads(run("convert", folder, "-o", os.path.join(tmp, "said." + ending), "--json").stdout)
        parts = json.dumps(said["left_out_parts"])
        assert "only1" in parts and '"k"' in parts, (ending, parts)
        assert ("only0" in parts) == ("same" in parts) == (ending != "gguf"), (ending, parts)
        CHECKS["formats"] += 1


def gguf_file(path, entries):
    """A GGUF of one tensor; entries: key to a string or a list of them, in bytes."""

    def text(b):
        return struct.pack("<Q", len(b)) + b

    def value(v):
        return (
            struct.pack("<I", 8) + text(v)
            if isinstance(v, bytes)
            else struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))
        )

    entries = {b"general.architecture": b"llama", **entries}
    data = (
        b"GGUF"
        + struct.pack("<IQQ", 3, 1, len(entries))
        + b"".join(text(k) + value(v) for k, v in entries.items())
    )
    data += text(b"w") + struct.pack("<IQIQ", 1, 8, 0, 0)
    data += bytes(-len(data) % 32) + bytes(32)
    with open(path, "wb") as f:
        f.write(data)
    return data


def gguf_strings(tmp):
    """Strings of GGUF that are not UTF-8: noted, and their bytes come back, by every way there."""
    source, st, back = (os.path.join(tmp, n) for n in ("s.gguf", "s.safetensors", "back.gguf"))
    bad = [
        b"\xe4",
        b"\xe5",
        b"ok",
        b"\xc3\xa4",
        b"",
        b'a\xffb\xfe"\\\x01',
        "\ufffd".encode(),
        b"\xed\xa0\x80",
    ]
    every = [bytes([i]) for i in range(256)] + [
        bytes([i, j]) for i in (0, 0x41, 0x80, 0xC2, 0xE2, 0xFF) for j in (0, 0x22, 0x80, 0xBF, 0xC0)
    ]
    cases = (
        ({b"tok": bad}, 4),
        ({b"tok": b"\xe4 name"}, 1),
        ({b"tok": [b"\xc3\xa4", b"ok"]}, 0),
        ({b"other": [b"\x80"], b"tok": every, b"z": b"z"}, 152),
    )
    for entries, count in cases:
        data = gguf_file(source, entries)
        for command in (
            ["convert", source, "-o", back],
            ["convert", source, "-o", st],
            ["cp", source, st],
            ["join", source, "-o", st],
        ):
            r = run(*command, "-f", "--json")
            said = json.loads(r.stdout)
            assert said["left_out_parts"] == [], said
            if command[0] == "convert":
                notes = [n["message"] for n in said["notes"] if n["subject"] == "tok"]
                assert len(notes) == (count > 0) and all(
                    n.startswith(f"{count} of its strings") for n in notes
                ), said
            if st in command:
                run("cp", st, st, "-f")
                run("convert", st, "-o", back, "-f", "--verify")
            with open(back, "rb") as f:
                assert f.read() == data, command
            CHECKS["strings"] += 1
    with safe_open(st, "pt") as f:
        metadata = f.metadata()
    shown = json.loads(metadata["tok"])
    kept = json.loads(metadata["gguf.types"])["tok"]
    assert (
        kept["type"] == "[string]"
        and [kept["bytes"].get(str(i), "").encode("latin-1") or t.encode() for i, t in enumerate(shown)]
        == every
    )
    # Another text counts, as far as it is one; what was kept for the others stays
    gguf_file(source, {b"tok": [b"\xe4", b"x", b"\xe5"]})
    run("convert", source, "-o", st, "-f")
    run("cp", st, st, "-f", "-m", 'tok=["new", "x", "\ufffd", "more"]')
    run("convert", st, "-o", back, "-f")
    with open(back, "rb") as f:
        assert f.read() == gguf_file(source, {b"tok": [b"new", b"x", b"\xe5", b"more"]})
    # What no GGUF leaves is refused
    for wrong in (
        '{"1": "\u0100"}',
        '{"x": "a"}',
        '{"0": ""}',
        '{"0": 1}',
        '{"1": "\u00e4", "0": "\u00e4"}',
        "[]",
        '{"-1": "a"}',
        '{"0": "\\ud800"}',
    ):
        run("cp", st, st, "-f", "-m", 'gguf.types={"tok": {"type": "[string]", "bytes": %s}}' % wrong)
        r = run("convert", st, "-o", back, "-f", want=1)
        assert "tok" in r.stderr or "gguf.types" in r.stderr, r.stderr
        CHECKS["strings"] += 1
    # Two files
    gguf_file(source, {b"tok": [b"\xe4"]})
    run("convert", source, "-o", st, "-f")
    save_file({"v": X}, os.path.join(tmp, "v.safetensors"), {"gguf.types": '{"n": "u32"}', "n": "7"})
    run("convert", st, os.path.join(tmp, "v.safetensors"), "-o", os.path.join(tmp, "both.safetensors"))
    run("convert", os.path.join(tmp, "both.safetensors"), "-o", back, "-f")
    assert "\ufffd" in run("meta", back).stdout
    with open(back, "rb") as f:
        assert struct.pack("<Q", 1) + b"\xe4" in f.read()
    # More than is kept is named, as the count of strings that are not what they were
    gguf_file(source, {b"tok": [b"\xe4" * 5_000_000]})
    said = json.loads(run("convert", source, "-o", st, "-f", "--json").stdout)["left_out_parts"]
    assert len(said) == 1 and said[0]["message"].startswith("1 of its strings is not UTF-8"), said


def once(pairs):
    assert len(pairs) == len(dict(pairs)), pairs
    return dict(pairs)


def describing(path):
    """gguf.tensors and gguf.types of one file, no key of them twice."""
    with safe_open(path, "pt") as f:
        metadata = f.metadata()
    return [json.loads(metadata.get("gguf." + k, "{}"), object_pairs_hook=once) for k in ("tensors", "types")]


def blocks(tmp):
    """Shards whose gguf.tensors and gguf.types differ: every command puts them together, and the way back to GGUF is open."""
    tensors = {f"q{i}": torch.arange(4 * 68, dtype=torch.uint8).reshape(4, 68) + i for i in range(3)}
    said = {name: {"type": "Q8_0", "shape": [4, 64]} for name in tensors}
    types = {f"k{i}": "u32" for i in range(3)}
    folder = os.path.join(tmp, "blocks")
    os.makedirs(folder)
    files = [f"model-0000{i + 1}-of-00003.safetensors" for i in range(3)]

    def shards(values):
        for i, (file, value) in enumerate(zip(files, values)):
            save_file(
                {f"q{i}": tensors[f"q{i}"]},
                os.path.join(folder, file),
                {
                    "general.architecture": "llama",
                    f"k{i}": "7",
                    "gguf.types": json.dumps({f"k{i}": "u32", "split.no": "u16"}),
                    **value,
                },
            )

    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": dict(zip(tensors, files))}, f)
    each = [{"gguf.tensors": json.dumps({name: s})} for name, s in said.items()]
    wrong = {**said, "q0": {"type": "Q4_0", "shape": [4, 32]}}
    cases = (
        each,
        [each[0], {"gguf.tensors": json.dumps(wrong)}, {}],
    )  # what a file says of its own tensors counts
    for case in cases:
        shards(case)
        one, parts = os.path.join(tmp, "blocks.st"), os.path.join(tmp, "blocks.d")
        for command in (
            ["join", folder, "-o", one],
            ["cp", folder, one],
            ["convert", folder, "-o", parts],
            ["split", folder, "-o", parts, "--max-shard-size", 300],
        ):
            r = run(*command, "-f", "--json")
            assert "gguf." not in r.stderr and json.loads(r.stdout)["left_out_parts"] == [], (
                command,
                r.stderr,
                r.stdout,
            )
            for path in [one] if one in command else [os.path.join(parts, f) for f in files]:
                assert describing(path) == [said, types], (command, describing(path))
                CHECKS["descriptions"] += 1
            out = one if one in command else parts
            back, got = os.path.join(tmp, "blocks.gguf"), os.path.join(tmp, "blocks.back.safetensors")
            run("convert", out, "-o", back, "-f", "--verify")
            run("convert", back, "-o", got, "-f")
            same(got, tensors)
            assert describing(got)[0] == said, describing(got)
            run("get", out, "q0", "-d", "F32", "-o", os.path.join(tmp, "v.npy"), "-f", want=1)
        run("convert", folder, "-o", os.path.join(tmp, "blocks.gguf"), "-f", "--verify")
        run("cp", folder, one, "-f", "--rename", "q*=blk.*", "--drop", "*2")
        assert describing(one)[0] == {"blk.0": said["q0"], "blk.1": said["q1"]}, describing(one)
    # One that is no object: nothing is made up, and it is named
    shards([each[0], {"gguf.tensors": "[1]"}, {}])
    for command in "join", "cp":
        r = run(command, folder, *([one] if command == "cp" else ["-o", one]), "-f", "--json")
        assert [p["subject"] for p in json.loads(r.stdout)["left_out_parts"]] == ["gguf.tensors"], r.stdout


def retyped(tmp):
    """One text of two types, or of two strings that UTF-8 shows alike: named by every command that puts the files together."""
    folder, one, back = (os.path.join(tmp, n) for n in ("typed", "typed.st", "typed.gguf"))
    files = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
    os.makedirs(folder)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": {"a": files[0], "b": files[1]}}, f)
    paths = [os.path.join(folder, f) for f in files]
    byte = [{"type": "string", "bytes": {"0": c}} for c in "\u00e4\u00e5"]
    cases = (
        ("7", "u32", "u32", []),
        ("7", "u32", "i64", ["n"]),
        ("7", "u32", None, ["n"]),
        ("7", None, "u32", ["n"]),
        ("7", None, None, []),
        ("\ufffd", byte[0], byte[0], []),
        ("\ufffd", byte[0], byte[1], ["n"]),
        ("\ufffd", byte[0], None, ["n"]),
        ("[1]", "[u8]", "[i8]", ["n"]),
    )
    for text, first, second, told in cases:
        for both in True, False:  # other keys have types, too, or none has
            for i, said in enumerate((first, second)):
                entries = {**({"n": said} if said is not None else {}), **({f"k{i}": "u8"} if both else {})}
                save_file(
                    {"ab"[i]: X},
                    paths[i],
                    {
                        "general.architecture": "llama",
                        "n": text,
                        f"k{i}": "1",
                        **({"gguf.types": json.dumps(entries)} if entries else {}),
                    },
                )
            for command in (
                ["join", folder, "-o", one],
                ["cp", folder, one],
                ["convert", folder, "-o", folder + ".d"],
                ["split", folder, "-o", folder + ".d"],
                ["convert", *paths, "-o", one],
                ["convert", folder, "-o", back],
            ):
                r = run(*command, "-f", "--json")
                parts = [
                    p["subject"] for p in json.loads(r.stdout)["left_out_parts"] if p["subject"] != "k1"
                ]  # a later file's own, which GGUF does not get
                assert parts == told and ("of another type" in r.stderr) == bool(told), (
                    text,
                    first,
                    second,
                    command,
                    parts,
                    r.stderr,
                )
                CHECKS["types"] += 1
    # Once, however many files have it
    four = [os.path.join(tmp, f"{c}.safetensors") for c in "abcd"]
    for i, path in enumerate(four):
        save_file({"abcd"[i]: X}, path, {"n": "7", "gguf.types": json.dumps({"n": "i64" if i else "u32"})})
    r = run("convert", *four, "-o", one, "-f", "--json")
    assert [p["subject"] for p in json.loads(r.stdout)["left_out_parts"]] == ["n"], r.stdout


def long_names(tmp):
    """MindSpore 2.10 loads names of 1,024 characters (of any number of bytes), and refuses a file with a longer one."""
    for name, good in (
        ("x" * 1024, True),
        ("x" * 1025, False),
        ("\u00e9" * 1024, True),
        ("\u00e9" * 1025, False),
    ):
        source, out = os.path.join(tmp, "long.pt"), os.path.join(tmp, "long.ckpt")
        torch.save({name: X, "a": X + 1}, source)
        r = run("convert", source, "-o", out, "-f", *(["--verify"] if good else []), want=0 if good else 1)
        assert good or "names have 1 to 1024 characters: rename it" in r.stderr, r.stderr
        CHECKS["long names"] += 1
    st, npz = os.path.join(tmp, "long.safetensors"), os.path.join(tmp, "long.npz")
    for n in 4000, 5000, 59000:  # above what is read of a file to know its format
        save_file({"x" * n: X}, st)
        run("convert", st, "-o", npz, "-f", "--verify")
        run("convert", npz, "-o", st, "-f")
        same(st, {"x" * n: X})
        assert list(numpy.load(npz)) == ["x" * n]
        CHECKS["long names"] += 1


if __name__ == "__main__":
    program(
        one_file,
        links,
        twice,
        jobs,
        storages,
        parts_in_shards,
        ranks,
        other_formats,
        gguf_strings,
        blocks,
        retyped,
        long_names,
    )
