#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report_page.py - reads what `safetensors report` writes: load(PATH) gives the summary with "tensors", each with name, dtype,
nbytes, shape, file, offset, stats and heat (docs/report.md). Everything is checked to its last byte. Standard library only."""

import base64
import json
import re
import struct


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data)
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self):
        return self.take(1)[0]

    def leb(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def unpack(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))


def stats_of(r):
    flag = r.byte()
    if flag == 0:
        return None
    s = dict(zip(("n", "nan", "+inf", "-inf", "zero", "negative"), (r.leb() for _ in range(6))))
    s["exact"] = {1: True, 2: False}[flag]
    s.update(zip(("min", "max", "mean", "std", "norm"), r.unpack("5d")))
    s["percentiles"] = r.unpack("9f")
    s["low"], s["width"] = r.unpack("2d")
    s["bins"] = [r.leb() for _ in range(r.byte())]
    return s


def heat_of(r):
    if r.byte() == 0:
        return None
    rows, columns = r.byte(), r.byte()
    assert 1 <= rows <= 32 and 1 <= columns <= 32
    (scale,) = r.unpack("f")
    cells = r.take(rows * columns)
    return rows, columns, scale, list(cells)


def load(path):
    with open(path, "rb") as f:
        page = f.read()
    texts = re.findall(rb'<script type="application/json" id="sft-summary">(.*?)</script>', page, re.S)
    columns = re.findall(
        rb'<script type="application/octet-stream" id="sft-columns">(.*?)</script>', page, re.S
    )
    assert len(texts) == len(columns) == 1 and b"<" not in texts[0] and b"sft:data" not in page
    summary = json.loads(texts[0])
    data = base64.b64decode(columns[0], validate=True)
    parts, end = {}, 0
    for s in summary["columns"]["sections"]:
        assert s["offset"] == end
        end += s["bytes"]
        parts[s["name"]] = Reader(data[s["offset"] : end])
    assert end == len(data)
    tensors, last, file = [], 0, None
    for _ in range(summary["columns"]["count"]):
        template = summary["templates"][parts["names"].leb()]
        name = template[0]
        for part in template[1:]:
            name += str(parts["names"].leb()) + part
        dtype, nbytes, shape = summary["kinds"][parts["kinds"].leb()]
        now = parts["places"].leb()
        step = parts["places"].leb()
        last = (last if now == file else 0) + (step >> 1 ^ -(step & 1))
        file = now
        t = {
            "name": name,
            "dtype": summary["dtypes"][dtype]["name"],
            "nbytes": int(nbytes),
            "shape": shape,
            "file": file,
        }
        t["offset"] = last
        last += int(nbytes)
        t["stats"] = stats_of(parts["stats"]) if parts["stats"].data else None
        t["heat"] = heat_of(parts["heat"]) if parts["heat"].data else None
        tensors.append(t)
    for r in parts.values():
        assert r.at == len(r.data)
    summary["tensors"] = tensors
    return summary


CHANGES = ("same", "removed", "added", "type", "values", "name")
LEAST = -48  # exponent of the first bin of a histogram of changes


def elements(page, path, last):
    """The object and the columns of a page, by the object's id."""
    texts = re.findall(rb'<script type="application/json" id="%s">(.*?)</script>' % last, page, re.S)
    columns = re.findall(
        rb'<script type="application/octet-stream" id="sft-columns">(.*?)</script>', page, re.S
    )
    assert len(texts) == len(columns) == 1 and b"<" not in texts[0] and b"sft:data" not in page, path
    return json.loads(texts[0]), base64.b64decode(columns[0], validate=True)


def change_of(r):
    form = r.byte()
    if form == 0:
        return None
    m = {"equal": r.leb(), "not_finite": r.leb()}
    has_ulp, ulp = r.byte(), r.leb()
    if has_ulp:
        m["max_ulp"] = ulp
    cast, rank = r.byte(), r.leb()
    if cast:
        m["cast"] = cast == 2
    if rank:
        m["rank"] = rank - 1 or None
    if form == 2:
        keys = ("norm_a", "norm_b", "norm_change", "relative", "cosine", "max_abs")
        m.update(zip(keys, r.unpack("6d")))
        exponent = r.byte() + LEAST
        m["histogram"] = {"exponent": exponent, "counts": [r.leb() for _ in range(r.byte())]}
    return m


def load_diff(path):
    """What `safetensors diff --report` writes: the object with "rows", each with name, change, new_name, a, b, moved, measures."""
    with open(path, "rb") as f:
        page, data = elements(f.read(), path, b"sft-diff")
    parts, end = {}, 0
    for s in page["columns"]["sections"]:
        assert s["offset"] == end
        end += s["bytes"]
        parts[s["name"]] = Reader(data[s["offset"] : end])
    assert end == len(data)

    def name_in(section):
        template = page["templates"][parts[section].leb()]
        return template[0] + "".join(str(parts[section].leb()) + part for part in template[1:])

    def kind():
        dtype, _, shape = page["kinds"][parts["kinds"].leb()]
        return {"dtype": page["dtypes"][dtype]["name"], "shape": shape}

    rows = []
    for _ in range(page["columns"]["count"]):
        mark = parts["marks"].byte()
        row = {"name": name_in("names"), "change": CHANGES[mark & 7], "a": None, "b": None}
        first = kind()
        second = kind() if mark & 32 else first
        row["a"] = None if row["change"] == "added" else first
        row["b"] = None if row["change"] == "removed" else second
        if mark & 8:
            row["new_name"] = name_in("others")
        if mark & 16:
            (row["moved"],) = parts["moved"].unpack("f")
            row["measures"] = change_of(parts["measures"])
        rows.append(row)
    for r in parts.values():
        assert r.at == len(r.data)
    page["rows"] = rows
    return page
