#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""known.py --tool TOOL - a file for each row of src/import/core/known.c: what is known and never read is named, by every
command that opens files, and nothing says "header length". A row without a file here is a fault. Standard library only."""

import argparse
import ast
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import zlib

from hostile_flat import DATA, Table, Vector, build, message
from hostile_proto import field
from load_cases import Run

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/import/core/known.c"
NPY = (
    b"\x93NUMPY\x01\x00"
    + struct.pack("<H", 54)
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}"[:53]
    + b"\n"
    + DATA
)

# Without magic numbers: question -> (file, words of the sentence)
ASKED = {
    "is_openvino": (
        b'<?xml version="1.0"?>\n<net name="m" version="11">\n<layers>\n</layers></net>',
        "OpenVINO",
    ),
    "is_html": (b" <!DOCTYPE html><html></html>", "web page"),
    "is_xml": (b'<?xml version="1.0"?>\n<PMML/>', "XML"),
    "is_tfjs": (b'{"format": "graph-model", "modelTopology": {}, "weightsManifest": []}', "TensorFlow.js"),
    "is_equinox": (b'{"width": 8}\n' + NPY, "Equinox"),
    "is_saved_model": (b"\x08\x01\x12\x0a" + bytes(10), "SavedModel"),
    "is_table": (b"\0\1\1k" + bytes(56) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", ""),
    "is_arrow_stream": (message(kind=1), "Arrow stream"),
    "is_coreml": (field(1, 7) + field(2, field(1, b"x")) + field(502, field(1, 1)), "CoreML"),
    "is_caffe": (field(1, b"net") + field(3, b"data") + field(100, field(1, b"conv")), "Caffe"),
    "is_dlib": (b"\x01\x01\x01\x0closs_metric_2" + bytes(20), "dlib"),
    "is_ctranslate": (struct.pack("<IH", 6, 16) + b"TransformerSpec\0" + bytes(20), "CTranslate2"),
    "is_capnp": (struct.pack("<IIQQ", 0, 2, 1 << 32, 5), "Cap'n Proto"),
    "is_zlib": (zlib.compress(bytes(1000)), "zlib"),
    "is_flatbuffer": (
        build(Table({0: ("I", 3), 1: Vector("table", []), 2: ("I", 4)}), ident=b""),
        "FlatBuffer",
    ),
}
MORE = {
    "a dlib shape": (b"\x01\x01\x81\x88\x81\x01" + bytes(20), "dlib"),
    "a CoreML pipeline": (field(1, 1) + field(2, b"") + field(10, 1) + field(202, b"x"), "CoreML"),
}
# Rows that a reader takes before, or that need more than a magic number: (bytes in front, behind)
BEHIND = {"PK\x05\x06": bytes(18), "\x57\xfb": b"", "RIFF": bytes(4) + b"WAVE"}

FOLDERS = {
    "Data/com.apple.CoreML/model.mlmodel": "a CoreML package",
    "zarr.json": "a Zarr store",
    "_CHECKPOINT_METADATA": "a checkpoint of Orbax",
}


def rows():
    """(magic, offset, sentence) of the table."""
    text = SOURCE.read_text(encoding="utf-8")
    table = text[text.index("refusals[] = {") : text.index("};", text.index("refusals[] = {"))]
    table = re.sub(r"/\*.*?\*/", "", table)
    for row in re.split(r"\b(?:REFUSED|OTHER)\(", table)[1:]:
        texts = [ast.literal_eval('b"' + t + '"') for t in re.findall(r'"((?:[^"\\]|\\.)*)"', octal(row))]
        magic_count = len(re.findall(r'"', row[: re.search(r",\s*(\d+)\s*,", row).start()])) // 2
        offset = int(re.search(r",\s*(\d+)\s*,", row).group(1))
        yield b"".join(texts[:magic_count]), offset, b"".join(texts[magic_count:]).decode()


def octal(text):
    return re.sub(
        r"\\0(?![0-7x])", r"\\x00", re.sub(r"\\0([0-7]{2})", lambda m: "\\x%02x" % int(m.group(1), 8), text)
    )


def check(tool, folder, what, raw, words, faults):
    (folder / "case.bin").write_bytes(raw)
    for args in (["ls", "case.bin"], ["convert", "case.bin", "-o", "out.safetensors"], ["show", "case.bin"]):
        run = Run(tool, args, folder)
        said = run.err.decode("utf-8", "replace")
        if (
            run.status != 1
            or words not in said
            or "header length" in said
            or (folder / "out.safetensors").exists()
        ):
            faults.append("%s: %s: exit %d: %s" % (what, args[0], run.status, said[:300]))
    run = Run(tool, ["scan", "--json", "case.bin"], folder)
    if run.status not in (0, 1) or json.loads(run.out)["verdict"] not in ("harmless", "unknown", "dangerous"):
        faults.append("%s: scan: exit %d: %s" % (what, run.status, run.err[:200]))


def lengths(tool, folder, faults):
    """Whatever the length of its header, and so the first bytes: a safetensors file is one to every command."""
    text = json.dumps({"w": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()
    names = []
    for n in (*range(len(text), 2000), *range(65536 + 128, 65536 + 1500, 256), 0x281, 0xA08, 0x4B50):
        names.append("h%d.safetensors" % n)
        (folder / names[-1]).write_bytes(struct.pack("<Q", n) + text.ljust(n) + bytes(8))
    run = Run(tool, ["scan", "--json", *names], folder)
    found = [json.loads(line) for line in run.out.splitlines()]
    wrong = [f["file"] for f in found if (f["format"], f["verdict"]) != ("safetensors", "harmless")]
    if wrong or len(found) != len(names):
        faults.append("lengths of headers: %d of %d files, wrong %s" % (len(found), len(names), wrong[:5]))
    run = Run(tool, ["convert", "h640.safetensors", "-o", "h640.npz"], folder)
    if run.status != 0:
        faults.append("convert of a header of 640 bytes: %s" % run.err[:200])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    faults, count = [], 0
    asked = re.findall(r"\{(is_\w+), SFT_IMPORT", SOURCE.read_text(encoding="utf-8"))
    if sorted(asked) != sorted(ASKED):
        faults.append("questions without a file here: %s" % sorted(set(asked) ^ set(ASKED)))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for magic, offset, sentence in rows():
            raw = b"\x01" * min(offset, 4) + bytes(max(offset - 4, 0)) + magic
            raw += BEHIND.get(magic.decode("latin-1"), b"\x01" * 60)
            check(tool, folder, repr(magic), raw, sentence, faults)
            count += 1
        for what, (raw, words) in (ASKED | MORE).items():
            check(tool, folder, what, raw, words, faults)
            count += 1
        for inside, words in FOLDERS.items():
            path = folder / words.replace(" ", "-") / inside
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x")
            run = Run(tool, ["ls", words.replace(" ", "-")], folder)
            if run.status != 1 or words.encode() not in run.err:
                faults.append("%s: exit %d: %s" % (inside, run.status, run.err[:300]))
            count += 1
        lengths(tool, folder, faults)
    for f in faults:
        print("FAULT", f)
    print("%d formats, %d faults" % (count, len(faults)))
    return 1 if faults or count < 80 else 0


if __name__ == "__main__":
    sys.exit(main())
