#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""named.py --tool TOOL - arrays where a format's readers do not look for tensors: each is named, in every format; and names that
are odd but names. Files are made here, out of the builders of the hostile tests. Standard library only."""

import argparse
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import hostile_flat as flat
import hostile_hdf5 as hdf5
import hostile_proto as proto
from hostile import make_tar
from hostile_proto import field


def attribute(name, kind, space, value):
    raw = name.encode() + b"\0"
    return 12, bytes([3, 0]) + struct.pack(
        "<HHH", len(raw), len(kind), len(space)
    ) + b"\0" + raw + kind + space + value


def with_attributes(*attributes):
    """One dataset w with these attributes, and the root with the first."""
    dataset = hdf5.header(hdf5.space(4), hdf5.F4, hdf5.compact(), *attributes)
    return hdf5.root(lambda at: hdf5.header(hdf5.link("w", at["w"]), *attributes[:1]), ("w", dataset))


def numpy_array(values=4, name=b"float32"):
    """An array as Flax writes it: extension 1, (shape, type, bytes)."""
    body = (
        b"\x93"
        + b"\x91"
        + bytes([values])
        + bytes([0xA0 | len(name)])
        + name
        + b"\xc4"
        + bytes([4 * values])
        + bytes(4 * values)
    )
    return b"\xc7" + bytes([len(body)]) + b"\1" + body


def msgpack(pairs):
    return bytes([0x80 | len(pairs)]) + b"".join(bytes([0xA0 | len(k)]) + k + v for k, v in pairs)


def archive(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def cases():
    """(name, file, names that arrive, names that are told of)"""
    numbers = (hdf5.F4[1], hdf5.space(4)[1], hdf5.DATA)
    one = attribute("mean", *numbers)
    yield "HDF5: an attribute", with_attributes(one), ["w"], ["@mean", "w@mean"]
    yield (
        "HDF5: attributes that are no arrays",
        with_attributes(
            attribute("s", hdf5.F4[1], bytes([2, 0, 0, 0]), hdf5.DATA[:4]),
            attribute("t", b"\x13\0\0\0\4\0\0\0", hdf5.space(4)[1], bytes(16)),
            attribute("n", hdf5.F4[1], bytes([2, 0, 0, 2]), b""),
            attribute("z", hdf5.F4[1], hdf5.space(0)[1], b""),
        ),
        ["w"],
        [],
    )
    yield (
        "HDF5: attributes cut short",
        with_attributes((12, one[1][:9]), (12, one[1][:20]), (12, b""), (12, b"\3")),
        ["w"],
        [],
    )
    yield (
        "TFLite: a buffer",
        flat.build(
            flat.model([flat.tensor()], [flat.data(), flat.data(bytes(9)), flat.data(b""), flat.data(None)])
        ),
        ["w"],
        ["buffer_2"],
    )
    yield (
        "Flax: no names",
        msgpack([(b"", numpy_array()), (b"a", msgpack([(b"", numpy_array(2)), (b"b", numpy_array(3))]))]),
        ["", "a.", "a.b"],
        [],
    )
    yield "Flax: an array alone", numpy_array(), ["tensor"], []
    tensors = [proto.onnx_tensor("w"), proto.onnx_tensor("")]
    props = [
        field(n, field(1, k) + field(2, "text"))
        for n, k in ((14, "names"), (14, "stride"), (16, "of the graph"))
    ]
    yield (
        "ONNX: texts",
        proto.onnx_model(
            proto.onnx_tensor("w", more=props[2]), proto.onnx_tensor("v", more=props[2]), graph=props[2]
        )
        + props[0]
        + props[1],
        ["v", "w"],
        ["metadata_props", "metadata_props.names", "metadata_props.of the graph", "metadata_props.stride"],
    )
    yield "ONNX: no name", proto.onnx_model(*tensors), ["", "w"], []
    keep = proto.field(5, proto.field(1, "k") + proto.field(5, proto.onnx_tensor("x")))
    node = proto.field(1, proto.field(2, "y") + proto.field(4, "Own") + keep)
    yield "ONNX: an attribute", proto.onnx_model(tensors[0], graph=node), ["w", "y.k"], []
    functions = b"".join(
        field(25, field(1, "f") + field(10, d) + field(11, field(1, "a") + field(5, tensors[0])))
        for d in ("p", "q")
    )
    yield (
        "ONNX: functions of one name",
        proto.onnx_model(tensors[0]) + functions,
        ["f@p.attribute_proto.a", "f@q.attribute_proto.a", "w"],
        [],
    )
    single = field(25, field(1, "f") + field(10, "p") + field(11, field(1, "a") + field(5, tensors[0])))
    yield "ONNX: one function", proto.onnx_model(tensors[0]) + single, ["f.attribute_proto.a", "w"], []
    sparse = field(
        15,
        field(1, proto.onnx_tensor("s"))
        + field(2, proto.onnx_tensor("i", 7, data=field(9, bytes(32))))
        + field(3, 9),
    )
    yield (
        "ONNX: sparse",
        proto.onnx_model(tensors[0], graph=sparse),
        ["s.indices", "s.size", "s.values", "w"],
        [],
    )
    config = json.dumps({"config": {}})
    yield (
        "pt2: no list names it",
        archive(
            {
                "m/archive_format": b"pt2",
                "m/archive_version": b"0",
                "m/byteorder": b"little",
                "m/data/weights/m_weights_config.json": config,
                "m/data/weights/weight_0": bytes(16),
            }
        ),
        None,
        ["m/data/weights/weight_0"],
    )
    two = b"\x80\x02K\x02."
    good = make_tar()
    at = good.index(b"tensors") + 512
    more = good[at:]
    size = int(good[good.index(b"tensors") + 124 : good.index(b"tensors") + 135], 8)
    entry = more[5:size]  # behind its count
    again = entry.replace(struct.pack("<B", 100), struct.pack("<B", 101), 1)
    branch = field(1, "then") + field(6, field(5, proto.onnx_tensor("w")))
    nodes = [("if", "y"), ("if", "z"), ("", "u"), ("if", ""), ("own", "a"), ("own", "b")]
    graph = b"".join(proto.onnx_node(n, "If", branch, output=o) for n, o in nodes)
    yield (
        "onnx: nodes of one name",
        proto.onnx_model(graph=graph),
        ["if.then.w", "if@z.then.w", "node_2.then.w", "if@3.then.w", "own.then.w", "own@b.then.w"],
        [],
    )
    yield "tar: not in the object", make_tar({"files": {"tensors": two + entry + again}}), ["w"], ["101"]


def flax_parts(tool, folder):
    """A key that names two parts is refused with both; shards whose index has paths, as transformers writes them."""

    def run(*args, want=0):
        r = subprocess.run([tool, *args], cwd=folder, capture_output=True, text=True)
        assert r.returncode == want, (args, r)
        return r

    inner = msgpack([(b"w", numpy_array())])
    two = msgpack(
        [(b"a", msgpack([(b"b", inner)])), (b"a.b", msgpack([(b"v", numpy_array())])), (b"c", inner)]
    )
    (folder / "two.msgpack").write_bytes(two)
    told = run("ls", "two.msgpack", "--key", "a.b", want=1).stderr
    assert '"a" > "b" and "a.b"' in told, told
    for key, names in ("c", ["w"]), ("a", ["b.v", "b.w"]), (".", ["a.b.v", "a.b.w", "c.w"]):
        got = json.loads(run("ls", "two.msgpack", "--key", key, "--json").stdout)
        assert sorted(t["name"] for t in got["tensors"]) == names, (key, got)
    model = folder / "flax"
    model.mkdir()
    shards = ["flax_model-00001-of-00002.msgpack", "flax_model-00002-of-00002.msgpack"]
    (model / shards[0]).write_bytes(
        msgpack([(b"l", msgpack([(b"a", numpy_array()), (b"v", numpy_array())]))])
    )
    (model / shards[1]).write_bytes(msgpack([(b"l", msgpack([(b"b", numpy_array())]))]))
    for join in "/", ".":
        index = {
            "metadata": {"total_size": 48},
            "weight_map": {f"l{join}a": shards[0], f"l{join}v": shards[0], f"l{join}b": shards[1]},
        }
        (model / "flax_model.msgpack.index.json").write_text(json.dumps(index))
        got = json.loads(run("ls", "flax", "--json").stdout)
        assert sorted(t["name"] for t in got["tensors"]) == ["l.a", "l.b", "l.v"], got
        run("convert", "flax", "-o", "flax-out" + str(ord(join)), "--verify")
        run("diff", "flax", "flax-out" + str(ord(join)))
    index["weight_map"]["l/a"] = shards[1]
    (model / "flax_model.msgpack.index.json").write_text(json.dumps(index))
    assert "l.a" in run("ls", "flax", want=1).stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    faults, count = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flax_parts(tool, folder)
        for what, data, arrive, told in cases():
            count += 1
            (folder / "in").write_bytes(data)
            r = subprocess.run(
                [tool, "convert", "in", "-o", "out.safetensors", "-f", "--json"],
                cwd=name,
                capture_output=True,
                text=True,
            )
            if arrive is None:  # nothing is left to write
                listed = subprocess.run([tool, "ls", "in"], cwd=name, capture_output=True, text=True)
                if r.returncode != 1 or any("left out: " + t not in listed.stderr for t in told):
                    faults.append("%s: exit %d: %s" % (what, r.returncode, r.stderr.strip()))
                continue
            if r.returncode != 0:
                faults.append("%s: exit %d: %s" % (what, r.returncode, r.stderr.strip()))
                continue
            out = (folder / "out.safetensors").read_bytes()
            header = json.loads(out[8 : 8 + struct.unpack("<Q", out[:8])[0]])
            header.pop("__metadata__", None)
            got = sorted(p["subject"] for p in json.loads(r.stdout)["left_out_parts"])
            if sorted(header) != sorted(arrive) or got != sorted(told):
                faults.append("%s: has %s, names %s" % (what, sorted(header), got))
    for fault in faults:
        print("FAULT", fault)
    print("%d files, %d faults" % (count, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
