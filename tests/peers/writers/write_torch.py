#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_torch.py FOLDER - what torch.save and its kin write: every type, protocol, container, kind of view, quantised and
sparse tensors, checkpoints of every shape that is met, modules, TorchScript, exported programs."""

import argparse
import collections
import io
import pathlib
import sys
import warnings

import numpy as np
import torch
from expect import NAMES, Files, rows, sha

warnings.filterwarnings("ignore")
torch.manual_seed(35)
files = Files("torch " + torch.__version__.split("+")[0])


def raw(t):
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def answer(t):
    """Rows of a plain tensor; [] if only its name can be asked for."""
    if (
        type(t) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        or t.layout != torch.strided
        or t.is_quantized
        or t.is_meta
    ):
        return []
    kind = str(t.dtype).split(".")[-1]
    if kind in NAMES:
        return [[NAMES[kind], list(t.shape), sha(raw(t))]]
    if kind == "float4_e2m1fn_x2":  # two values a byte: the reference doubles the last dimension
        return [["F4", [*t.shape[:-1], 2 * t.shape[-1]], sha(raw(t))]] if t.dim() else []
    if kind.startswith(("bits", "uint", "int")):  # types of a few bits, a byte each
        return [["U8", list(t.shape), sha(raw(t))], ["I8", list(t.shape), sha(raw(t))]]
    return []


def flat(value, prefix=None, found=None):
    found = {} if found is None else found
    name = "tensor" if prefix is None else prefix
    if isinstance(value, torch.Tensor):
        found[name] = answer(value)
    elif isinstance(value, np.ndarray):
        found[name] = rows(value)
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            flat(item, "%s.%s" % (prefix, key) if prefix else str(key), found)
    return found


def put(name, value, part=lambda v: v, load=None, more=None, **how):
    """part: which part of what is loaded arrives"""
    try:
        torch.save(value, files.path(name), **how)
        loaded = torch.load(files.path(name), **(load or {"weights_only": False}))
    except Exception as e:
        files.path(name).unlink(missing_ok=True)
        files.skip(name, e)
        return
    found = flat(part(loaded))
    more = dict(more or {})
    if not found and "named" not in more:
        more["not_converted"] = "no tensor"
    files.add(name, found, **more)


def bits(dtype, shape=(4, 6)):
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8).view(dtype)


def types():
    kinds = sorted({str(v).split(".")[-1] for v in vars(torch).values() if isinstance(v, torch.dtype)})
    for kind in kinds:
        dtype = getattr(torch, kind)
        for name, protocol, zipped in (
            ("zip2", 2, True),
            ("zip4", 4, True),
            ("old2", 2, False),
            ("old5", 5, False),
        ):
            try:
                base = bits(dtype)
            except Exception:
                try:  # types that nothing is computed in: bytes under another name
                    base = torch.empty((4, 6), dtype=dtype)
                    base.untyped_storage().copy_(
                        torch.randint(
                            0, 256, (base.untyped_storage().nbytes(),), dtype=torch.uint8
                        ).untyped_storage()
                    )
                except Exception as e:
                    files.skip("%s-%s" % (kind, name), e)
                    continue
            tree = {"base": base, "row": base[1], "columns": base[:, 1:3]}
            try:
                tree["turned"] = base.t()
                tree["wide"] = base[:1].expand(3, 6)
                tree["alone"] = base[2, 3].clone()
                tree["none"] = base[:0]
            except Exception:
                pass
            put(
                "plain-%s-%s.pt" % (kind, name),
                {"base": base},
                pickle_protocol=protocol,
                _use_new_zipfile_serialization=zipped,
            )
            put(
                "type-%s-%s.pt" % (kind, name),
                tree,
                pickle_protocol=protocol,
                _use_new_zipfile_serialization=zipped,
            )


def containers():
    w, b = torch.randn(3, 4), torch.randn(3)
    Pair = collections.namedtuple("Pair", "w b")
    globals()["Pair"] = Pair
    Pair.__module__ = "__main__"
    trees = {
        "tensor": w,
        "list": [w, b],
        "tuple": (w, {"b": b}),
        "deep": {"a": {"b": {"c": [w, [b]]}}},
        "ordered": collections.OrderedDict(w=w, b=b),
        "defaultdict": collections.defaultdict(list, w=w),
        "counter": {"w": w, "c": collections.Counter("abc")},
        "ints": {0: w, 7: b},
        "tuple-keys": {("a", 1): w},
        "none-key": {None: w, "b": b},
        "empty-name": {"": w},
        "dotted": {"a.b": w, "c": {"d.e": b}},
        "clash": {"a.b": w, "a": {"b": b}},
        "numbers": {
            "w": w,
            "n": 1,
            "f": 0.5,
            "t": "text",
            "none": None,
            "c": 1 + 2j,
            "by": b"123",
            "big": 2**100,
        },
        "odd": {
            "w": w,
            "size": w.shape,
            "dtype": torch.float16,
            "device": torch.device("cpu"),
            "layout": torch.strided,
            "format": torch.channels_last,
            "version": torch.__version__,
            "dots": ...,
            "not": NotImplemented,
        },
        "set": {"w": w, "s": {1, 2}, "f": frozenset([3])},
        "path": {"w": w, "p": pathlib.PurePosixPath("/a/b")},
        "namespace": {"w": w, "a": argparse.Namespace(a=1, b=[2])},
        "slice": {"w": w, "s": slice(1, 2), "r": range(3)},
        "generator": {"w": w, "g": torch.get_rng_state()},
        "numpy": {"w": w, "n": b.numpy(), "s": np.float32(3), "i": np.int64(4)},
        "numpy-odd": {"w": w, "t": np.array(["a"]), "d": np.array(["2020-01-01"], "M8[D]")},
        "storage": {"w": w, "s": b.untyped_storage()},
        "typed-storage": {"w": w, "s": torch.FloatStorage(3)},
        "parameter": {"w": torch.nn.Parameter(w), "b": torch.nn.Buffer(b)},
        "parameter-list": {"w": torch.nn.ParameterList([w, b])},
        "grad": {"w": w.clone().requires_grad_()},
        "scalar": {"w": torch.tensor(3.5), "i": torch.tensor(3)},
        "empties": {"a": torch.empty(0), "b": torch.empty(3, 0, 2), "w": w},
        "rank9": {"w": torch.randn((1,) * 8 + (3,))},
        "unicode": {"重み": w, "ü b": b},
        "long-name": {"x" * 5000: w},
        "many": {"t%04d" % i: torch.full((2,), i) for i in range(3000)},
        "none": {"step": 3},
        "empty": {},
        "nothing": None,
    }
    for name, tree in trees.items():
        named = [k for k in ("s",) if name in ("storage", "typed-storage")]
        for zipped in (True, False):
            more = {"named": named} if named else {}
            put(
                "tree-%s-%s.pt" % (name, "zip" if zipped else "old"),
                tree,
                more=more,
                _use_new_zipfile_serialization=zipped,
            )


def views():
    x = torch.randn(4, 5, 6)
    c = torch.randn(3, 4, dtype=torch.complex64)
    trees = {
        "tied": {"a": x, "b": x, "c": x},
        "overlap": {"a": x[:3], "b": x[1:]},
        "transposed": {"a": x, "b": x.transpose(0, 2)},
        "expanded": {"a": x[:1].expand(9, 5, 6), "b": torch.zeros(1).expand(1000)},
        "strided": {"a": x.as_strided((3, 3), (1, 2), 7)},
        "negative": {"a": torch.flip(x, [0])},
        "conj": {"a": c, "b": c.conj(), "t": c.conj().t()},
        "neg": {"a": c.conj().imag, "b": c},
        "real": {"a": c, "re": c.real, "im": c.imag},
        "channels": {"a": x[None].contiguous(memory_format=torch.channels_last)},
        "types": {"a": x, "b": x.view(torch.int32)},
        "bytes": {"a": x.to(torch.float8_e4m3fn), "b": x.to(torch.float8_e4m3fn).view(torch.uint8)},
        "small-of-big": {"a": torch.randn(1000, 100)[3]},
        "diagonal": {"a": x.diagonal()},
        "unfold": {"a": torch.arange(9.0).unfold(0, 3, 1)},
        "slices": {"s%d" % i: x[i] for i in range(4)},
        "tail": {"a": x.view(-1)[-1:], "b": x.view(-1)[:0]},
        "half-bytes": {"a": x.half(), "b": x.half().view(torch.int16), "c": x.bfloat16()},
    }
    same = torch.randint(0, 255, (16,), dtype=torch.uint8)
    trees["one-storage-two-types"] = {
        "a": same,
        "b": same.view(torch.float8_e5m2),
        "c": same.view(torch.float32),
    }
    for name, tree in trees.items():
        for zipped in (True, False):
            put(
                "view-%s-%s.pt" % (name, "zip" if zipped else "old"),
                tree,
                _use_new_zipfile_serialization=zipped,
            )


def kinds():
    """What is no plain tensor: kept as named parts, left out by name, or refused."""
    x = torch.randn(6, 8)
    made = {
        "quint8": lambda: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8),
        "qint8": lambda: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8),
        "qint32": lambda: torch.quantize_per_tensor(x, 0.1, 3, torch.qint32),
        "channel": lambda: torch.quantize_per_channel(
            x, torch.rand(6).double() + 0.1, torch.zeros(6).long(), 0, torch.qint8
        ),
        "channel-float": lambda: torch.quantize_per_channel(
            x, torch.rand(6) + 0.1, torch.zeros(6), 0, torch.quint4x2
        ),
        "quint4x2": lambda: torch.quantize_per_channel(
            x, torch.rand(6).float() + 0.1, torch.zeros(6).float(), 0, torch.quint4x2
        ),
        "coo": lambda: x.relu().to_sparse(),
        "coo-uncoalesced": lambda: torch.sparse_coo_tensor([[0, 0, 1]], [1.0, 2, 3], (4,)),
        "hybrid": lambda: torch.sparse_coo_tensor([[0, 2]], torch.randn(2, 5), (4, 5)),
        "csr": lambda: x.relu().to_sparse_csr(),
        "csc": lambda: x.relu().to_sparse_csc(),
        "bsr": lambda: x.relu().to_sparse_bsr((2, 2)),
        "bsc": lambda: x.relu().to_sparse_bsc((2, 2)),
        "nested": lambda: torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)]),
        "jagged": lambda: torch.nested.nested_tensor(
            [torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged
        ),
        "meta": lambda: torch.empty(3, 4, device="meta"),
        "subclass": lambda: x.as_subclass(Own),
        "masked": lambda: torch.masked.masked_tensor(x, x > 0),
    }
    for name, make in made.items():
        for zipped in (True, False):
            label = "kind-%s-%s.pt" % (name, "zip" if zipped else "old")
            try:
                value = make()
                torch.save(
                    {"odd": value, "plain": x}, files.path(label), _use_new_zipfile_serialization=zipped
                )
            except Exception as e:
                files.skip(label, e)
                continue
            files.add(label, {"plain": answer(x)}, named=["odd"])


class Own(torch.Tensor):
    pass


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(4, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.two = torch.nn.Linear(6, 2, bias=False)

    def forward(self, x):
        return self.two(self.norm(self.one(x)).relu())


def checkpoints():
    model = Net()
    state = model.state_dict()
    for name in (
        "Adam",
        "AdamW",
        "SGD",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "NAdam",
        "RAdam",
        "LBFGS",
        "Rprop",
        "ASGD",
    ):
        optimizer = getattr(torch.optim, name)(
            model.parameters(), **({"momentum": 0.9} if name == "SGD" else {})
        )

        def closure():
            optimizer.zero_grad()
            loss = model(torch.randn(5, 4)).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        put("optimizer-%s.pt" % name, optimizer.state_dict())
        kept = {"epoch": 3, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}
        put("checkpoint-%s.pt" % name, kept, part=lambda k: k["state_dict"], more={"named": ["optimizer"]})
        put("checkpoint-%s-all.pt" % name, kept, more={"options": ["--key", "."]})
    averaged = {k: v * 0.5 for k, v in state.items()}
    lightning = {
        "epoch": 1,
        "global_step": 2,
        "pytorch-lightning_version": "2.6",
        "state_dict": {"net." + k: v for k, v in state.items()},
        "loops": {"fit_loop": {"state_dict": {}}},
        "callbacks": {"ModelCheckpoint": {"best": torch.tensor(0.5)}},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": []}],
        "lr_schedulers": [],
    }
    put(
        "shape-lightning.ckpt",
        lightning,
        part=lambda k: k["state_dict"],
        more={"named": ["callbacks", "optimizer_states"]},
    )
    put("shape-gan.pt", {"generator": state, "discriminator": averaged})
    put("shape-two-models.pt", {"model1": state, "model": averaged})
    put(
        "shape-ema.pt",
        {"model": state, "model_ema": averaged, "epoch": 3},
        part=lambda k: k["model"],
        more={"named": ["model_ema"]},
    )
    put(
        "shape-detectron.pth",
        {"model": state, "__author__": "x", "matching_heuristics": True},
        part=lambda k: k["model"],
    )
    put(
        "shape-deepspeed.pt",
        {"module": state, "dp_world_size": 2, "ds_version": "0.1"},
        part=lambda k: k["module"],
    )
    put(
        "shape-moco.pth",
        {
            "arch": "resnet50",
            "state_dict": {"module.encoder_q." + k: v for k, v in state.items()}
            | {"module.queue": torch.randn(4, 8)},
        },
        part=lambda k: k["state_dict"],
    )
    put(
        "shape-fairseq.pt",
        {
            "args": argparse.Namespace(a=1),
            "model": state,
            "optimizer_history": [{"x": 1}],
            "last_optimizer_state": {"state": {0: torch.ones(2)}},
        },
        part=lambda k: k["model"],
        more={"named": ["last_optimizer_state"]},
    )
    put(
        "shape-whisper.pt",
        {"dims": {"n": 4}, "model_state_dict": state},
        part=lambda k: k["model_state_dict"],
    )
    put("shape-three.pt", {"encoder": state, "decoder": averaged, "head": {"w": torch.ones(3)}})
    put("shape-lists.pt", {"models": [state, averaged]})
    put("shape-swa.pt", {"n_averaged": torch.tensor(4), **{"module." + k: v for k, v in state.items()}})
    put("module.pt", model, part=lambda m: m.state_dict(), more={"options": ["--allow-opaque"]})
    put(
        "module-old.pt",
        model,
        part=lambda m: m.state_dict(),
        more={"options": ["--allow-opaque"]},
        _use_new_zipfile_serialization=False,
    )
    for kind in (
        torch.nn.LSTM(3, 4, 2),
        torch.nn.GRU(3, 4, bidirectional=True),
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.Embedding(7, 3),
        torch.nn.MultiheadAttention(8, 2),
        torch.nn.TransformerEncoderLayer(8, 2),
        torch.nn.GroupNorm(2, 4),
        torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4)),
        torch.nn.PReLU(),
        torch.nn.Bilinear(2, 3, 4),
    ):
        put("layer-%s.pth" % type(kind).__name__, kind.state_dict())


def programs():
    model = Net().eval()
    x = torch.randn(2, 4)
    for name, made in (
        ("script", lambda: torch.jit.script(model)),
        ("trace", lambda: torch.jit.trace(model, x)),
        ("frozen", lambda: torch.jit.freeze(torch.jit.script(model))),
    ):
        try:
            made().save(str(files.path("jit-%s.pt" % name)))
        except Exception as e:
            files.skip("jit-" + name, e)
            continue
        wanted = flat(dict(torch.jit.load(str(files.path("jit-%s.pt" % name))).state_dict()))
        more = {"more": True} if name == "frozen" else {}
        files.add("jit-%s.pt" % name, wanted, options=["--allow-opaque"], **more)
        if wanted:
            files.path("jit-%s-plain.pt" % name).write_bytes(files.path("jit-%s.pt" % name).read_bytes())
            files.add("jit-%s-plain.pt" % name, wanted)
    try:
        torch.export.save(torch.export.export(model, (x,)), str(files.path("program.pt2")))
        wanted = torch.export.load(str(files.path("program.pt2"))).state_dict
        files.add("program.pt2", flat(dict(wanted)), more=True)
    except Exception as e:
        files.skip("program.pt2", e)
    try:
        from torch.package import PackageExporter

        with PackageExporter(str(files.path("package.pt"))) as out:
            out.extern("**")
            out.save_pickle("weights", "w.pkl", model.state_dict())
        files.add("package.pt", {}, named=["one.weight"], not_converted="a package of programs")
    except Exception as e:
        files.skip("package.pt", e)


def options():
    tree = {"w": torch.randn(30, 40), "b": torch.randn(5)}
    for protocol in (0, 1, 2, 3, 4, 5):
        for zipped in (True, False):
            put(
                "protocol%d-%s.pt" % (protocol, "zip" if zipped else "old"),
                tree,
                pickle_protocol=protocol,
                _use_new_zipfile_serialization=zipped,
            )
    torch.serialization.set_crc32_options(False)
    put("no-crc.pt", tree)
    torch.serialization.set_crc32_options(True)
    for alignment in (1, 4096):
        try:
            torch.utils.serialization.config.save.storage_alignment = alignment
            put("aligned-%d.pt" % alignment, tree)
        except Exception as e:
            files.skip("aligned-%d" % alignment, e)
    torch.utils.serialization.config.save.storage_alignment = 64
    with torch.serialization.skip_data():
        torch.save(tree, files.path("skipped-data.pt"))
    loaded = torch.load(files.path("skipped-data.pt"))
    files.add("skipped-data.pt", flat(loaded))
    stream = io.BytesIO()
    torch.save(tree, stream)
    files.path("stream.pt").write_bytes(stream.getvalue())
    files.add("stream.pt", flat(tree))
    files.path("a b ü.pt").write_bytes(stream.getvalue())
    files.add("a b ü.pt", flat(tree))
    with open(files.path("two-behind.pt"), "wb") as f:  # two saves into one stream
        torch.save(tree, f, _use_new_zipfile_serialization=False)
        torch.save({"second": torch.ones(3)}, f, _use_new_zipfile_serialization=False)
    files.add("two-behind.pt", flat(tree), named=["second"])
    np.savez(files.path("mixed.npz"), **{k: v.numpy() for k, v in tree.items()})
    files.add("mixed.npz", flat(tree))


types()
containers()
views()
kinds()
checkpoints()
programs()
options()
sys.exit(files.close())
