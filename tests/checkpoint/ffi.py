# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the differential tests call of libsafetensors-checkpoint, through ctypes; and files of the format, written and
read by a few lines of their own, so that no test compares the library with itself."""

import ctypes
import json
import struct

SIZES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "U16": 2,
    "U32": 4,
    "U64": 8,
    "BOOL": 1,
    "F8_E4M3": 1,
}


def write_file(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}, in this order."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def read_file(path):
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        body = f.read()
    metadata = header.pop("__metadata__", None)
    return {
        name: (e["dtype"], tuple(e["shape"]), body[e["data_offsets"][0] : e["data_offsets"][1]])
        for name, e in header.items()
    }, metadata


class Error(ctypes.Structure):
    _fields_ = [
        ("status", ctypes.c_int32),
        ("sys", ctypes.c_int32),
        ("rest", ctypes.c_uint64 * 5),
        ("tensor", ctypes.c_char * 112),
        ("message", ctypes.c_char * 352),
    ]


class Shard(ctypes.Structure):
    _fields_ = [(name, ctypes.POINTER(ctypes.c_uint64)) for name in ("start", "count", "local")]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("name_len", ctypes.c_size_t),
        ("dtype", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("pieces", ctypes.c_void_p),
        ("nbytes", ctypes.c_uint64),
        ("rank", ctypes.c_uint32),
        ("piece_count", ctypes.c_uint32),
        ("file", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


def numbers(values):
    return (ctypes.c_uint64 * max(len(values), 1))(*values)


class LayoutSet:
    def __init__(self, lib, data):
        self.lib, self.error = lib, Error()
        self.handle = ctypes.c_void_p()
        status = lib.sft_layout_set_parse(
            ctypes.byref(self.handle),
            data,
            ctypes.c_size_t(len(data)),
            b"test",
            None,
            ctypes.byref(self.error),
        )
        if status != 0:
            raise ValueError(self.error.message.decode())

    def boxes(self, name, shape, rank):
        """[(start, count)] of a whole tensor that the rank holds; None: not cut."""
        data = name.encode()
        t = Tensor(data, len(data), None, numbers(shape), None, 0, len(shape), 0, 0, 0)
        layout, dims, full = ctypes.c_void_p(), ctypes.c_size_t(len(shape)), numbers([0] * 64)
        self.check(
            self.lib.sft_layout_set_find_global(
                self.handle,
                ctypes.byref(t),
                ctypes.c_uint64(rank),
                ctypes.byref(layout),
                full,
                ctypes.byref(dims),
                ctypes.byref(self.error),
            )
        )
        if not layout:
            return None
        n, out = ctypes.c_uint64(), []
        self.check(
            self.lib.test_layout_shard_count(
                layout, numbers(shape), dims, ctypes.c_uint64(rank), ctypes.byref(n), ctypes.byref(self.error)
            )
        )
        for i in range(n.value):
            start, count, at = (numbers([0] * len(shape)) for _ in range(3))
            box = Shard(start, count, at)
            self.check(
                self.lib.test_layout_shard_at(
                    layout,
                    numbers(shape),
                    dims,
                    ctypes.c_uint64(rank),
                    ctypes.c_uint64(i),
                    ctypes.byref(box),
                    ctypes.byref(self.error),
                )
            )
            out.append((list(start[: len(shape)]), list(count[: len(shape)])))
        return out

    def box(self, name, shape, rank):
        """The one box; None: not cut."""
        boxes = self.boxes(name, shape, rank)
        if boxes is None:
            return None
        (one,) = boxes
        return one

    def all_boxes(self, name, shape, rank):
        """The boxes; all of it where it is not cut."""
        boxes = self.boxes(name, shape, rank)
        return [([0] * len(shape), list(shape))] if boxes is None else boxes

    def check(self, status):
        if status != 0:
            raise ValueError(self.error.message.decode())

    def __del__(self):
        self.lib.sft_layout_set_free(self.handle)
