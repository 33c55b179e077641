# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch_file.py - writes model.pt, a small PyTorch file, and evil.pt, one that would run a command; without torch."""

import io
import pickle
import struct
import sys
import types
import zipfile

torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")


class FloatStorage:
    pass


FloatStorage.__module__, torch.FloatStorage = "torch", FloatStorage


def _rebuild_tensor_v2(*args):
    pass


_rebuild_tensor_v2.__module__, utils._rebuild_tensor_v2 = "torch._utils", _rebuild_tensor_v2
sys.modules.update({"torch": torch, "torch._utils": utils})


class Storage:
    def __init__(self, key, values):
        self.key, self.values = key, values


class Tensor:
    def __init__(self, storage, size, stride):
        self.args = (storage, 0, size, stride, False, {})

    def __reduce__(self):
        return _rebuild_tensor_v2, self.args


class Evil:
    def __reduce__(self):
        return __import__("os").system, ("touch ran",)


class Pickler(pickle.Pickler):
    def persistent_id(self, x):
        if isinstance(x, Storage):
            self.seen[x.key] = x
            return ("storage", FloatStorage, x.key, "cpu", len(x.values))


def save(path, tree):
    f = io.BytesIO()
    p = Pickler(f, 2)
    p.seen = {}
    p.dump(tree)
    with zipfile.ZipFile(path, "w") as z:
        put = lambda name, data: z.writestr(zipfile.ZipInfo("m/" + name), data)
        put("data.pkl", f.getvalue())
        for key, s in p.seen.items():
            put("data/" + key, struct.pack("<%df" % len(s.values), *s.values))
        put("version", "3\n")


a, b = Storage("0", range(6)), Storage("1", [1.5] * 4)
t = Tensor(a, (2, 3), (3, 1))
save(
    "model.pt",
    {
        "state_dict": {"w": t, "w.t": Tensor(a, (3, 2), (1, 3)), "tied": t, "b": Tensor(b, (4,), (1,))},
        "epoch": 3,
        "lr": 0.1,
        "betas": (0.9, 0.999),
    },
)
save("evil.pt", {"w": t, "x": Evil()})
