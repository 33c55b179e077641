# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the objects of a training program are on the disk of a run: named tensors, and trees around them.

Written collects a step, Read plans how one goes back into the objects, in place where there is memory already. The
forms are those of docs/run.md; trees are those of tree.py. What is not known is refused with its path.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial

from . import _core, _run_hooks, tree
from ._core import SafetensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_LEVELS = 120  # of trees; the library reads 127 of a whole document
MODEL, OPTIMIZER, STATE = range(3)
FROZEN = 1
ON_DEVICE = 0x10000
_OURS = "a run"
_OWN = re.compile(r"state\.rank-\d{5}\.")  # tensors of trees of one of many processes
_WRAPPERS = ("DataParallel", "DistributedDataParallel")
_KNOWN = {name for _, name, _ in _core._dtypes if name is not None}


def torch_module() -> Any:
    return sys.modules.get("torch")


def is_tensor(x: Any) -> bool:
    torch = torch_module()
    return torch is not None and isinstance(x, torch.Tensor)


def is_module(x: Any) -> bool:
    torch = torch_module()
    return torch is not None and isinstance(x, torch.nn.Module)


def _numpy(x: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


# ---------------------------------------------------------------- bytes


def _code_and_shape(x: Any) -> tuple[str, list[int]]:
    from . import torch as frame

    code, shape = frame._CODES[x.dtype], list(x.shape)
    if code == "F4" and shape:
        shape[-1] *= 2
    return code, shape


def _torch_bytes(x: Any, at: object, stay: bool = False) -> tuple[str, list[int], int, int, Any]:
    from . import torch as frame

    torch = frame.torch
    if type(x) is not torch.Tensor:
        if hasattr(x, "_local_tensor") or isinstance(
            x,
            torch.nn.parameter.UninitializedTensorMixin,  # type: ignore[attr-defined]
        ):
            raise TypeError(f"{_OURS} cannot keep a {type(x).__name__} (at {at})")
    if x.is_nested or hasattr(type(x), "__tensor_flatten__"):
        raise TypeError(f"{_OURS} cannot keep a {'nested tensor' if x.is_nested else type(x)} (at {at})")
    if x.layout is not torch.strided or x.device.type == "meta" or x.dtype not in frame._CODES:
        raise TypeError(f"{_OURS} cannot keep a tensor of {x.dtype}, {x.layout}, on {x.device} (at {at})")
    x = x.detach()
    plain = (x.resolve_conj().resolve_neg() if stay else frame._plain(x)).contiguous()
    return (*_code_and_shape(plain), plain.data_ptr(), plain.nelement() * plain.element_size(), plain)


def _numpy_bytes(x: Any, at: object) -> tuple[str, list[int], int, int, Any]:
    import numpy as np

    if x.dtype.name not in _KNOWN:
        raise TypeError(f"{_OURS} cannot keep an array of {x.dtype} (at {at})")
    plain = np.asarray(x, dtype=x.dtype.newbyteorder("<"), order="C")
    return x.dtype.name, list(plain.shape), plain.ctypes.data if plain.nbytes else 0, plain.nbytes, plain


# ---------------------------------------------------------------- modules


def unwrap(module: Any) -> Any:
    """The module in what torch.compile and data-parallel wrappers make of it."""
    while True:
        inner = module._modules.get("_orig_mod")
        if inner is None and type(module).__name__ in _WRAPPERS:
            inner = module.module
        if inner is None:
            return module
        module = inner


def _strip(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _is_average(module: Any) -> bool:
    return any(cls.__name__ == "AveragedModel" for cls in type(module).__mro__)


def bare(module: Any) -> Any:
    """The module without what torch makes of it, averages included."""
    module = unwrap(module)
    return bare(module.module) if _is_average(module) else module


def extra_modules(module: Any) -> Iterator[tuple[str, Any]]:
    """(name, module) of what get_extra_state gives, as module_values calls it."""
    module = bare(module)
    base = torch_module().nn.Module.get_extra_state
    for path, inner in module.named_modules(remove_duplicate=False):
        if type(inner).get_extra_state is not base:
            yield f"{_strip(path + '.') if path else ''}_extra_state", inner


def module_values(module: Any, at: str = "model") -> dict[str, Any]:
    """{name: parameter, buffer, or extra state} without what wrappers put before the names."""
    module = unwrap(module)
    if _is_average(module):
        inner = module_values(module.module, at)
        own = {k: v for k, v in module.state_dict(keep_vars=True).items() if not k.startswith("module.")}
        return {**inner, **own}
    try:
        said = module.state_dict(keep_vars=True)
    except TypeError as e:
        kind = type(module).__name__
        raise TypeError(
            f"{_OURS} cannot keep a {kind} whose state_dict takes no keep_vars= (at {at}): {e}"
        ) from e
    return _by_name((_strip(name), value) for name, value in said.items())


def _by_name(found: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in found:
        if name in values:
            raise ValueError(f"two parameters or buffers are called `{name}`: {_OURS} keeps them by names")
        values[name] = value
    return values


def models(model: Any) -> Iterator[tuple[str, Any]]:
    """(prefix of the names, module) of a module or of a dict of them."""
    if model is None:
        return
    named = [(f"{k}.", v) for k, v in model.items()] if isinstance(model, Mapping) else [("", model)]
    for prefix, module in named:
        if not is_module(module):
            raise TypeError(
                f"{_OURS} cannot keep {type(module)} (at {('model.' + prefix)[:-1]}): it is no Module"
            )
        yield prefix, module


def model_values(model: Any) -> dict[str, Any]:
    return _by_name(
        (prefix + name, value)
        for prefix, module in models(model)
        for name, value in module_values(module, f"model.{prefix}".rstrip(".")).items()
    )


def model_extras(model: Any) -> list[tuple[str, Any]]:
    return [
        (prefix + name, inner) for prefix, module in models(model) for name, inner in extra_modules(module)
    ]


def said(module: Any) -> Iterator[tuple[str, Any, str]]:
    """What state_dict says beside parameters, buffers and extra states, which hooks and overriding classes make: its name as
    module_values calls it, the module whose load_state_dict takes it, and its name there."""
    module = bare(module)
    memory = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    own = {id(value) for _, value in memory}
    extras = {name for name, _ in extra_modules(module)}
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in own and _strip(name) not in extras:
            yield _strip(name), module, name


def model_said(model: Any) -> list[tuple[str, Any, str]]:
    return [
        (prefix + name, inner, own) for prefix, module in models(model) for name, inner, own in said(module)
    ]


def left_out(module: Any, values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """(name, parameter) of the parameters that are not among what state_dict says, neither by name nor as themselves; unless it
    says other tensors, large enough to hold them (two halves, both in one)."""
    named = [(prefix + _strip(name), p) for name, p in bare(module).named_parameters()]
    there = {id(value) for value in values.values()}
    left = [(name, p) for name, p in named if name not in values and id(p) not in there]
    if not left:
        return left
    own = {id(p) for _, p in named} | {id(b) for b in bare(module).buffers()}
    more = [x for name, x in values.items() if name.startswith(prefix) and is_tensor(x) and id(x) not in own]
    return left if sum(x.nbytes for x in more) < sum(p.nbytes for _, p in left) else []


def _memory(x: Any) -> Any:
    x = getattr(x, "_local_tensor", x)  # of a DTensor
    if x.is_nested or x.layout is not torch_module().strided or hasattr(type(x), "__tensor_flatten__"):
        return id(x)  # to be refused
    return (x.data_ptr(), x.dtype, tuple(x.shape), x.stride(), x.device) if x.numel() else id(x)


def split(
    values: dict[str, Any], extras: list[tuple[str, Any]]
) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """(tensors, {further name: name of the same tensor}, what is no tensor, and extra states)."""
    apart = {name for name, _ in extras}
    tensors: dict[str, Any] = {}
    tied: dict[str, str] = {}
    others: dict[str, Any] = {}
    seen: dict[Any, str] = {}
    for name, value in values.items():
        if not is_tensor(value) or name in apart:
            others[name] = value
            continue
        uninitialized = torch_module().nn.parameter.UninitializedTensorMixin
        first = seen.setdefault(id(value) if isinstance(value, uninitialized) else _memory(value), name)
        if first == name:
            tensors[name] = value
        else:
            tied[name] = first
    return tensors, tied, others


def parameter_names(model: Any, modules: Iterable[Any] = ()) -> dict[int, str | None]:
    """{id of a parameter: its name in the model; None: it is of a further module, and called as its optimizer calls it}."""
    names: dict[int, str | None] = {}
    for prefix, module in models(model):
        for name, parameter in unwrap(module).named_parameters():
            names.setdefault(id(parameter), prefix + _strip(name))
    for module in modules:
        for parameter in module.parameters():
            names.setdefault(id(parameter), None)
    return names


def _group_names(optimizer: Any, names: dict[int, str | None], key: str) -> list[list[str]]:
    """The names of the parameters of each group."""
    out = []
    for n, group in enumerate(optimizer.param_groups):
        own = group.get("param_names") or [None] * len(group["params"])
        found = [names.get(id(p)) or alone for p, alone in zip(group["params"], own)]
        for p, name in zip(group["params"], found):
            if names and name is not None and id(p) not in names:
                raise ValueError(
                    f"{key}: its parameter `{name}` is of no module that is given, so its values would not be kept: give"
                    " that module, too, by a name of your choice"
                )
        if None in found:
            i = found.index(None)
            raise ValueError(
                f"{key}: parameter {i} of group {n} has no name: it is no parameter of model= (or make the optimizer of"
                " model.named_parameters())"
            )
        out.append([_strip(name) for name in found])
    twice = Counter(name for found in out for name in found).most_common(1)
    if twice and twice[0][1] > 1:
        raise ValueError(
            f"{key}: two of its parameters are called `{twice[0][0]}`: a run keeps states by names"
        )
    return out


# ---------------------------------------------------------------- what a step is made of


class _Encoder(tree._Encoder):
    """Trees whose tensors are tensors of the step; `name` says where a tensor of a path goes."""

    who = _OURS

    def __init__(self, written: Written, name: Callable[[tuple[str, ...]], str], part: int) -> None:
        super().__init__()
        self.written = written
        self.name = name
        self.part = part
        self.level = 0

    def inner(self, x: Any, kind: type, at: tuple[str, ...]) -> Any:
        plain = kind is list or (kind is dict and tree.TAG not in x and all(type(k) is str for k in x))
        levels = 1 if plain else 3 if kind in tree._DICTS else 2
        if self.level + levels > _LEVELS:
            raise ValueError(
                f"{_OURS}: nested deeper than {_LEVELS} levels of JSON (at {tree._where(at[:8])}...)"
            )
        self.level += levels
        try:
            return super().inner(x, kind, at)
        finally:
            self.level -= levels

    def is_plain(self, x: Any, framework: str) -> bool:
        # of a DTensor the shards are kept, or it is refused where there is no group
        return super().is_plain(x, framework) or (framework == "pt" and hasattr(x, "device_mesh"))

    def tensor(self, x: Any, framework: str, at: tuple[str, ...]) -> Any:
        if framework not in ("pt", "np"):
            raise TypeError(f"{_OURS} keeps tensors of torch and NumPy, no {type(x)} (at {tree._where(at)})")
        name = self.names.get(id(x))
        if name is None:
            name = self.written.tensor(self.name(at), x, self.part, tree._where(at))
            self.names[id(x)] = name
            self.written.keep.append(x)
        node = {tree.TAG: "tensor", "v": name}
        return {**node, "of": "np"} if framework == "np" else node


def _check_text(name: str, at: object) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        what = f"{_OURS}: a name has a lone surrogate (at {at})"
        raise ValueError(what.encode("utf-8", "backslashreplace").decode()) from None


class Written:
    """A step that is being collected: what _core._Run.save takes."""

    def __init__(self, device: int | None = None) -> None:
        self.own = "state."  # how tensors of trees are called
        self.device = device  # tensors of this CUDA device are given by their address there
        self.on_device = False
        self.tensors: list[tuple[Any, ...]] = []
        self.entries: list[tuple[str, str]] = []
        self.metadata: list[tuple[str, str]] = []
        self.keep: list[Any] = []  # the memory that tensors point to
        self.names: set[str] = set()
        self.kept: set[int] = set()  # parameters whose values are in a module's state_dict
        self.lost: dict[int, tuple[str, Any]] = {}  # those that one leaves out

    def tensor(self, name: str, x: Any, part: int, at: object, flags: int = 0) -> str:
        if (
            self.device is not None
            and is_tensor(x)
            and x.device.type == "cuda"
            and x.device.index == self.device
        ):
            code, shape, address, nbytes, held = _torch_bytes(x, at, stay=True)
            flags |= ON_DEVICE if nbytes else 0
            self.on_device = True
        else:
            code, shape, address, nbytes, held = (_numpy_bytes if _numpy(x) else _torch_bytes)(x, at)
        _check_text(name, at)
        base, n = name, 1
        while name in self.names:
            n += 1
            name = f"{base}#{n}"
        self.names.add(name)
        self.keep.append(held)
        self.tensors.append((name, code, shape, part, address, nbytes, flags))
        return name

    def together(self) -> Any:
        """A context in which the step is collected."""
        return contextlib.nullcontext()

    def entry(self, name: str, node: Any) -> None:
        if any(name == other for other, _ in self.entries):
            raise ValueError(f"two of the objects that are saved are called {name!r}")
        self.entries.append((name, json.dumps(node, ensure_ascii=False, separators=(",", ":"))))

    def node(self, value: Any, path: tuple[str, ...]) -> Any:
        """A tree whose tensors are called state.<path>."""
        return _Encoder(self, lambda parts: self.own + ".".join(parts), STATE).value(value, path)

    def tree(self, name: str, value: Any) -> None:
        self.entry(name, self.node(value, (name,)))

    def model(self, model: Any) -> None:
        values = model_values(model)
        for prefix, module in models(model):
            self._note(module, values, prefix)
        tensors, tied, others = split(values, model_extras(model))
        for name, value in tensors.items():
            frozen = isinstance(value, torch_module().nn.Parameter) and not value.requires_grad
            self.tensor(name, value, MODEL, f"model.{name}", FROZEN if frozen else 0)
        # names that mean something else in the metadata are in the tree alone
        self.metadata += [(k, v) for k, v in tied.items() if k != "format" and not k.startswith("sft.")]
        self.tree("model", {"tied": tied, "other": others})

    def module(self, name: str, module: Any) -> None:
        """A further module (averaged weights): tensors state.<name>.<parameter>."""
        values = module_values(module, name)
        self._note(module, values)
        tensors, tied, others = split(values, list(extra_modules(module)))
        stored = {k: self.tensor(f"state.{name}.{k}", v, STATE, f"{name}.{k}") for k, v in tensors.items()}
        stored.update({k: stored[first] for k, first in tied.items()})
        nodes = {k: {tree.TAG: "tensor", "v": v} for k, v in stored.items()}
        self.entry(name, {"tensors": nodes, "other": self.node(others, (name,))})

    def _note(self, module: Any, values: dict[str, Any], prefix: str = "") -> None:
        lost = {id(p): (name, p) for name, p in left_out(module, values, prefix)}
        self.lost.update(lost)
        self.kept.update(id(p) for p in bare(module).parameters() if id(p) not in lost)

    def trained(self, key: str, optimizer: Any) -> None:
        """Once all modules are collected: what it trains is kept."""
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if id(p) in self.lost and id(p) not in self.kept and (p.requires_grad or p in optimizer.state):
                raise ValueError(
                    f"{key}: its parameter `{self.lost[id(p)][0]}` is not in what its module's state_dict gives, so its"
                    " value would not be kept"
                )

    def optimizer(self, key: str, optimizer: Any, names: dict[int, str | None]) -> None:
        start = key + ("." if key == "optimizer" else "/")
        groups = _group_names(optimizer, names, key)
        state = optimizer.state_dict()
        index = {
            i: name
            for saved, found in zip(state["param_groups"], groups)
            for i, name in zip(saved["params"], found)
        }
        for i in state["state"]:
            if i not in index:
                raise TypeError(
                    f"{_OURS} cannot keep the state of {i!r}, which is no parameter (at {key}.state)"
                )
        hyper = [
            {**{k: v for k, v in saved.items() if k not in ("params", "param_names")}, "params": found}
            for saved, found in zip(state["param_groups"], groups)
        ]
        encoder = _Encoder(self, lambda parts: f"{start}{'.'.join(parts[3:])}.{parts[2]}", OPTIMIZER)
        for i, name in index.items():
            for k in state["state"].get(i, {}):
                if type(k) is not str:
                    where = f"{key}.state.{name}.{k!r}"
                    raise TypeError(f"{_OURS} cannot keep a state under a key of {type(k)} (at {where})")
        kept = {
            name: {k: encoder.value(v, (key, "state", name, str(k))) for k, v in state["state"][i].items()}
            for i, name in index.items()
            if i in state["state"]
        }
        node = {"groups": self.node(hyper, (key, "groups")), "state": kept}
        more = {k: v for k, v in state.items() if k not in ("state", "param_groups")}
        if more:
            node["more"] = self.node(more, (key, "more"))
        self.entry(key, node)


# ---------------------------------------------------------------- back into the objects


class _Decoder(tree._Decoder):
    def tagged(self, tag: Any, v: Any, node: dict[str, Any], depth: int) -> Any:
        if tag == "tensor" and isinstance(v, str):
            return self.get((v, node.get("of")))  # type: ignore[arg-type]
        return super().tagged(tag, v, node, depth)


class Read:
    """A step that goes back: memory for its tensors is found first, then filled at once, then the objects are told."""

    def __init__(self, core: Any, step: int) -> None:
        self.step = step
        self.nodes = {name: json.loads(text) for name, text in core.entries().items()}
        self.there: dict[str, tuple[str, tuple[int, ...]]] = core.tensors()
        self.loads: list[tuple[Any, ...]] = []
        self.held: dict[str, Any] = {}  # the memory that each is read into, once
        self.then: list[Callable[[], object]] = []
        self.fresh: dict[tuple[str, Any], Any] = {}
        self.keep: list[Any] = []
        self.size = 1  # processes that resume

    def together(self) -> Any:
        """A context in which memory is found."""
        return contextlib.nullcontext()

    def fail(self, status: str, sentence: str) -> SafetensorError:
        error = SafetensorError(f"step {self.step}: {sentence}")
        error.status = status
        return error

    def form(self, right: bool, name: str) -> None:
        """right: the entry has the form that a run writes."""
        if not right:
            raise self.fail("SFT_E_SCHEMA", f"the entry `{name}` of state.json is not in the form of a run")

    def give(self, name: str, put: Callable[[Any], object], state: Any) -> None:
        """Tells an object of the program its state."""
        try:
            put(state)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as e:
            sentence = f"what was saved as `{name}` is not taken back: {type(e).__name__}: {e}"
            raise self.fail("SFT_E_SCHEMA", sentence) from e

    def has(self, name: str) -> bool:
        return name in self.nodes

    # -- memory

    def check(self, name: str, what: str, own: str, wanted: Any) -> str:
        """The type of tensor `name`, which is of that type and shape."""
        if name not in self.there:
            raise self.fail(
                "SFT_E_NOT_FOUND", f"there is no tensor `{name}` for {what}: it is of another model"
            )
        code, shape = self.there[name]
        if tuple(wanted) != tuple(shape):
            raise self.fail(
                "SFT_E_SHAPE", f"`{name}` is {list(shape)}, {what} is {list(wanted)}: it is of another model"
            )
        if own != code:
            raise self.fail("SFT_E_DTYPE", f"`{name}` is {code}, {what} is {own}: it is of another model")
        return code

    def into(self, name: str, target: Any, what: str) -> None:
        """Tensor `name` of the step goes into the memory of `target`."""
        own, wanted, address, nbytes, held = (_numpy_bytes if _numpy(target) else _torch_bytes)(target, what)
        code = self.check(name, what, {n: c for c, n, _ in _core._dtypes}.get(own, own), wanted)
        shape = self.there[name][1]
        first = self.held.setdefault(name, held)
        if first is held:
            self.loads.append((name, code, list(shape), STATE, address, nbytes, 0))
        if not is_tensor(target):
            if first is not target:
                self.then.append(lambda: target.__setitem__(..., first))
        elif first is not held or held.data_ptr() != target.data_ptr():
            self.then.append(lambda: self.give(what, partial(_put, target.detach()), first))

    def tensor(self, name: str, of: Any, like: Any = None, device: Any = None, mine: bool = False) -> Any:
        """A tensor of its own for `name`; `like`: how it is laid out; mine: it may be that one."""
        known = self.fresh.get((name, of))
        if known is not None:
            return known
        if name not in self.there:
            raise self.fail("SFT_E_NOT_FOUND", f"there is no tensor `{name}`")
        code, shape = self.there[name]
        made: Any
        if of == "np":
            import numpy as np

            made = np.empty(shape, dtype={c: n for c, n, _ in _core._dtypes}[code])
        else:
            from . import torch as frame

            dtype = frame._TYPES[code]
            shape = (*shape[:-1], shape[-1] // 2) if code == "F4" else shape
            if is_tensor(like) and tuple(like.shape) == tuple(shape):
                same = mine and like.dtype is dtype and not isinstance(like, frame.torch.nn.Parameter)
                made = (
                    like if same else frame.torch.empty_like(like, dtype=dtype, requires_grad=False).detach()
                )
            else:
                made = frame.torch.empty(shape, dtype=dtype, device=device or "cpu")
        self.fresh[name, of] = made
        self.into(name, made, name)
        return made

    def _tensor_of(self, which: tuple[str, Any], **how: Any) -> Any:
        return self.tensor(*which, **how)

    def value(self, node: Any) -> Any:
        return _Decoder(self._tensor_of).value(node)  # type: ignore[arg-type]

    def tree(self, name: str) -> Any:
        if name not in self.nodes:
            raise self.fail("SFT_E_NOT_FOUND", f"nothing was saved as {name}=")
        return self.value(self.nodes[name])

    # -- objects

    def model(self, model: Any) -> None:
        saved = self.tree("model")
        self.form(_has(saved, tied=dict, other=dict), "model")
        self.form(all(isinstance(first, str) for first in saved["tied"].values()), "model")
        extras = model_extras(model)
        tensors, tied, others = split(model_values(model), extras)
        for name, value in tensors.items():
            self.into(saved["tied"].get(name, name), value, f"the parameter or buffer `{name}`")
        for name, first in tied.items():
            one, other = (saved["tied"].get(n, n) for n in (name, first))
            if one != other and one in self.there and other in self.there:
                sentence = f"`{name}` and `{first}` are one tensor of the model, and two here: it is of another model"
                raise self.fail("SFT_E_MISMATCH", sentence)
        wanted = {saved["tied"].get(name, name) for name in [*tensors, *tied]}
        used = {*_tensors_of(list(self.nodes.values())), *saved["tied"]}
        for name in self.there:
            if name not in wanted and name not in used and not _OWN.match(name):
                raise self.fail("SFT_E_NOT_FOUND", f"the model has no `{name}`: it is of another model")
        self._others(extras, others, saved["other"])
        values = {**tensors, **{k: tensors[v] for k, v in tied.items()}, **saved["other"]}
        self._tell("model", [one for _, one in models(model)], model_said(model), values)

    def module(self, name: str, module: Any) -> None:
        if name not in self.nodes:
            raise self.fail("SFT_E_NOT_FOUND", f"nothing was saved as {name}=")
        self.form(_has(self.nodes[name], tensors=dict, other=dict), name)
        saved = self.nodes[name]["tensors"]
        self.form(all(_has(node, v=str) for node in saved.values()), name)
        extras = list(extra_modules(module))
        tensors, tied, others = split(module_values(module, name), extras)
        for key, value in tensors.items():
            if key not in saved:
                raise self.fail("SFT_E_NOT_FOUND", f"there is no `{key}` for {name}=: it is of another model")
            self.into(saved[key]["v"], value, f"`{key}` of {name}=")
        other = self.value(self.nodes[name]["other"])
        self.form(isinstance(other, dict), name)
        self._others(extras, others, other)
        values = {**tensors, **{k: tensors[v] for k, v in tied.items()}, **other}
        self._tell(name, [module], list(said(module)), values)

    def _others(self, extras: list[tuple[str, Any]], here: dict[str, Any], saved: dict[str, Any]) -> None:
        """What modules say of themselves by get_extra_state."""
        for name in {**here, **saved}:
            if name not in saved or name not in here:
                raise self.fail(
                    "SFT_E_NOT_FOUND", f"`{name}` is only in the {'model' if name in here else 'step'}"
                )
        for name, inner in extras:
            if name in saved:
                self.then.append(partial(self.give, name, inner.set_extra_state, saved[name]))

    def _tell(
        self, key: str, modules: list[Any], said: list[tuple[str, Any, str]], values: dict[str, Any]
    ) -> None:
        """What modules say beside their memory goes back as it came, through load_state_dict; so does the rest into those that
        do something of their own there."""
        told: dict[int, tuple[Any, str, dict[str, Any]]] = {}
        for name, module, own in said:
            value = values[name].detach() if is_tensor(values[name]) else values[name]
            told.setdefault(id(module), (module, name, {}))[2][own] = value
        for module in map(bare, modules):
            if _run_hooks.loads_itself(module):
                told.setdefault(id(module), (module, key, {}))
        for module, name, state in told.values():
            self.then.append(partial(self.give, name, partial(_run_hooks.load, module), state))

    def optimizer(self, key: str, optimizer: Any, names: dict[int, str | None]) -> None:
        if key not in self.nodes:
            raise self.fail("SFT_E_NOT_FOUND", f"no state of {key} was saved")
        node = self.nodes[key]
        self.form(_has(node, groups=list, state=dict), key)
        self.form(all(isinstance(state, dict) for state in node["state"].values()), key)
        found = _group_names(optimizer, names, key)
        saved = self._groups(key, node["groups"], found)
        torch = torch_module()
        if isinstance(optimizer, torch.optim.LBFGS) and node["state"]:
            self._same_order(key, found, saved)
        base = torch.optim.Optimizer
        hooks = getattr(optimizer, "_optimizer_load_state_dict_pre_hooks", None)
        if (
            not isinstance(optimizer, base)
            or type(optimizer).load_state_dict is not base.load_state_dict
            or hooks
        ):
            self._as_dict(optimizer, node, found, saved)
            return
        state: dict[Any, Any] = {}
        for group, ours, hyper in zip(optimizer.param_groups, found, saved):
            placed = hyper.get("capturable") or hyper.get("fused")
            for p, name in zip(group["params"], ours):
                if name in node["state"]:
                    state[p] = self._state_of(p, node["state"][name], optimizer.state.get(p, {}), placed)

        def put() -> None:
            for group, hyper in zip(optimizer.param_groups, saved):
                for k, v in hyper.items():
                    if is_tensor(v) and is_tensor(group.get(k)):
                        group[k].copy_(v)
                    elif k != "params":
                        group[k] = v
            optimizer.state.clear()
            optimizer.state.update(state)
            optimizer.__setstate__({"state": optimizer.state, "param_groups": optimizer.param_groups})

        self.then.append(put)

    def _same_order(self, key: str, found: list[list[str]], saved: list[dict[str, Any]]) -> None:
        """LBFGS keeps one flat history of all parameters, in their order."""
        for ours, group in zip(found, saved):
            for name, theirs in zip(ours, group["params"]):
                if name != theirs:
                    raise self.fail(
                        "SFT_E_MISMATCH",
                        f"{key}: LBFGS keeps one history of all parameters in their order, and has `{name}` where the"
                        f" step has `{theirs}`: make it with its parameters in the order of the step",
                    )

    def _groups(self, key: str, nodes: list[Any], found: list[list[str]]) -> list[dict[str, Any]]:
        """The saved groups in the order of the optimizer's own."""
        groups = [self.value(n) for n in nodes]
        self.form(all(_has(g, params=list) and _texts(g["params"]) for g in groups), key)
        by_names: dict[Any, list[Any]] = {}
        for g in groups:
            by_names.setdefault(frozenset(g["params"]), []).append(g)
        chosen = []
        for names in found:
            left = by_names.get(frozenset(names))
            if left:
                chosen.append(left.pop(0))  # several of the same names are empty ones, in their order
            else:
                known = {name for g in groups for name in g["params"]}
                name = next((n for n in names if n not in known), names[0] if names else "")
                raise self.fail("SFT_E_MISMATCH", f"no group of {key} has the parameters of that of `{name}`")
        if len(found) != len(groups):
            raise self.fail(
                "SFT_E_MISMATCH", f"{key} had {len(groups)} groups of parameters, now it has {len(found)}"
            )
        return chosen

    def _state_of(self, p: Any, node: dict[str, Any], old: Any, placed: Any) -> dict[str, Any]:
        out = {}
        for k, v in node.items():
            mine = old.get(k) if isinstance(old, Mapping) else None
            device = p.device if k != "step" or placed else "cpu"
            like = None if k == "step" else p
            if is_tensor(mine) and isinstance(v, dict) and v.get(tree.TAG) == "tensor":
                like = mine
            own = like is mine and mine is not None
            get = partial(self._tensor_of, like=like, device=device, mine=own)
            out[k] = _Decoder(get).value(v)  # type: ignore[arg-type]
        return out

    def _as_dict(
        self, optimizer: Any, node: Any, found: list[list[str]], saved: list[dict[str, Any]]
    ) -> None:
        """For an optimizer with a load_state_dict of its own."""
        index = {name: i for i, name in enumerate(n for names in found for n in names)}
        state = {index[name]: self.value(v) for name, v in node["state"].items() if name in index}
        groups = [{**hyper, "params": [index[n] for n in names]} for hyper, names in zip(saved, found)]
        more = self.value(node.get("more", {}))
        self.form(isinstance(more, dict), "optimizer")
        whole = {"state": state, "param_groups": groups, **more}
        self.then.append(lambda: self.give("optimizer", optimizer.load_state_dict, whole))


def _put(target: Any, value: Any) -> None:
    """copy_, into expanded tensors too, whose elements must all be the same then."""
    some, part = target, value
    for d, (n, stride) in enumerate(zip(target.shape, target.stride())):
        if stride == 0 and n > 1:
            some, part = some.narrow(d, 0, 1), part.narrow(d, 0, 1)
    some.copy_(part)
    if some is not target:
        same = (target == value) | ((target != target) & (value != value))
        if not bool(same.all()):
            raise ValueError("it is expanded, and what was saved is not")


def _has(node: Any, **kinds: type) -> bool:
    """Whether it is a dict with values of these types."""
    return isinstance(node, dict) and all(isinstance(node.get(k), kind) for k, kind in kinds.items())


def _texts(names: list[Any]) -> bool:
    return all(isinstance(name, str) for name in names)


def _tensors_of(node: Any) -> Iterator[str]:
    todo = [node]
    while todo:
        x = todo.pop()
        if isinstance(x, list):
            todo += x
        elif isinstance(x, dict):
            if x.get(tree.TAG) == "tensor":
                if isinstance(x.get("v"), str):
                    yield x["v"]
            else:
                todo += x.values()


# ---------------------------------------------------------------- random states


def random_states(extra: Any = True) -> dict[str, Any]:
    """{name: state} of the generators of python, NumPy and torch, where the program uses them, and of further ones."""
    out: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), torch_module()
    if numpy is not None:
        out["numpy"] = numpy.random.get_state(legacy=False)
    if torch is not None:
        out["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            out.update({f"cuda.{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())})
    if isinstance(extra, Mapping):
        for name, generator in extra.items():
            if name in ("python", "numpy", "torch") or name.startswith("cuda."):
                raise ValueError(f"rng: the name {name!r} is taken")
            out[name] = _generator_state(name, generator)
    return out


def _generator_state(name: str, generator: Any) -> Any:
    torch, numpy = torch_module(), sys.modules.get("numpy")
    if torch is not None and isinstance(generator, torch.Generator):
        return generator.get_state()
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    raise TypeError(f"{_OURS} cannot keep {type(generator)} (at rng.{name})")


def set_random_states(states: Mapping[str, Any], extra: Any = True) -> None:
    torch = torch_module()
    further = extra if isinstance(extra, Mapping) else {}
    for name, state in states.items():
        if name == "python":
            random.setstate(state)
        elif name == "numpy":
            import numpy

            numpy.random.set_state(state)
        elif name == "torch":
            torch.set_rng_state(state)
        elif name.startswith("cuda."):
            if torch is not None and torch.cuda.is_available() and int(name[5:]) < torch.cuda.device_count():
                torch.cuda.set_rng_state(state, int(name[5:]))
        elif name in further:
            generator = further[name]
            if isinstance(generator, random.Random):
                generator.setstate(state)
            elif hasattr(generator, "bit_generator"):
                generator.bit_generator.state = state
            else:
                generator.set_state(state)
