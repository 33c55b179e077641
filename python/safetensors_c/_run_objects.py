# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The objects of a training that a Run saves and resumes: models, optimizers, and what tells its own state."""

from __future__ import annotations

from collections.abc import Mapping

from . import _run_group
from . import _run_state as _state
from ._core import SafetensorError
from ._run_batches import Batches, warn_of_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class Damage(Exception):
    pass


def parts(what: str, objects: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) of one object or of a dict of them."""
    if isinstance(objects, Mapping):
        yield from ((f"{what}.{name}", one) for name, one in objects.items())
    elif objects is not None:
        yield what, objects


def others(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for what, objects in given.items():
        if what not in ("model", "optimizer", "rng"):
            if what in ("extra", "metrics", _run_group.ENTRY) or what.startswith("rng"):
                raise TypeError(f"{what} is no name for an object")
            yield from parts(what, objects)


def _modules(given: Mapping[str, Any]) -> list[Any]:
    return [one for _, one in others(given) if _state.is_module(one)]


def small_states(given: Mapping[str, Any], own: Callable[[Any], Any] = lambda x: x) -> dict[str, Any]:
    """The states of all that is neither a module nor an optimizer. own: what makes a copy of what an object may change;
    random states are copies already."""
    small = {}
    warn_of_shared([(name, one) for name, one in others(given) if isinstance(one, Batches)])
    for name, one in others(given):
        if _state.is_module(one):
            continue
        if hasattr(one, "state_dict") and hasattr(one, "load_state_dict"):
            small[name] = own(one.state_dict())
            generator = _generator_of(one)
            if generator is not None:
                small[f"{name}.generator"] = generator.get_state()
        elif hasattr(one, "set_epoch") and hasattr(one, "epoch"):
            small[name] = {"epoch": one.epoch}  # torch's DistributedSampler
        elif hasattr(one, "batch_sampler"):
            raise TypeError(
                f"a run cannot keep {type(one)} (at {name}): it does not tell where it is; iterate over"
                " safetensors_c.run.Batches(loader) and give that, or use torchdata's StatefulDataLoader"
            )
        else:
            raise TypeError(
                f"a run cannot keep {type(one)} (at {name}): it has no state_dict and load_state_dict"
            )
    rng = given.get("rng")
    if rng is not None and rng is not False:
        small.update({f"rng.{name}": state for name, state in _state.random_states(rng).items()})
    return small


def _generator_of(one: Any) -> Any:
    """The generator that a loader which tells where it is (torchdata's) was given; its state is not part of what it tells."""
    generator = getattr(one, "generator", None) if hasattr(one, "batch_sampler") else None
    return generator if hasattr(generator, "get_state") and hasattr(generator, "set_state") else None


def _begun(read: _state.Read, name: str, one: Any) -> list[tuple[Any, Any]]:
    """A loader that resumes draws random numbers when its epoch begins, which the training that goes on has done already: it
    begins now, before the random states are put back."""
    if not hasattr(one, "batch_sampler"):
        return []
    more: list[tuple[Any, Any]] = [(lambda ignored: one.state_dict(), None)]
    generator = _generator_of(one)
    if generator is not None and read.has(f"{name}.generator"):
        more.append((generator.set_state, read.tree(f"{name}.generator")))
    return more


def collect(written: _state.Written, given: Mapping[str, Any], small: Mapping[str, Any]) -> None:
    model = given.get("model")
    if model is not None:
        written.model(model)
    names = _state.parameter_names(model, _modules(given))
    for key, optimizer in parts("optimizer", given.get("optimizer")):
        if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "state_dict"):
            raise TypeError(f"a run cannot keep {type(optimizer)} (at {key}): it is no optimizer")
        written.optimizer(key, optimizer, names)
    for name, one in others(given):
        if _state.is_module(one):
            written.module(name, one)
    for key, optimizer in parts("optimizer", given.get("optimizer")):
        written.trained(key, optimizer)
    for name, state in small.items():
        written.tree(name, state)


def put_back(core: Any, read: _state.Read, given: Mapping[str, Any]) -> tuple[Any, set[str], str]:
    """extra, what is left behind as another number of processes resumes, and sentences for a warning, or ""."""
    states: list[tuple[str, Any, Any]] = []
    with read.together():
        rng = given.get("rng")
        wanted = rng is not None and rng is not False
        left, why = _run_group.left_behind(read, dict(others(given)), wanted)
        for name in rng if isinstance(rng, Mapping) else ():
            if not read.has(f"rng.{name}"):
                raise read.fail("SFT_E_NOT_FOUND", f"nothing was saved as rng.{name}")
        _find_memory(read, given, left, states)
        saved = [n for n in read.nodes if n.startswith("rng.")]
        said = [why] if why else []
        if wanted and not saved:
            said.append(f"step {read.step} holds no random states: they stay as they are")
        more = _not_asked_for(read, given)
        if more:
            said.append(f"step {read.step} holds more than is asked for: {', '.join(more)}")
        kept = [n for n in saved if n not in left] if wanted else []
        generators = {n[4:]: read.tree(n) for n in kept}
        extra = read.tree("extra") if read.has("extra") else None
    try:
        core.load(read.loads)
    except SafetensorError as e:
        if e.status != "SFT_E_MISMATCH":
            raise
        raise Damage(str(e)) from e
    torch = _state.torch_module()
    if torch is not None:
        with torch.no_grad():
            for put in read.then:
                put()
    for name, put_state, state in states:
        read.give(name, put_state, state)
    read.give("rng", lambda found: _state.set_random_states(found, rng), generators)
    return extra, left, "; ".join(said)


def _not_asked_for(read: _state.Read, given: Mapping[str, Any]) -> list[str]:
    """What the step holds of a training that goes on (so its optimizer is asked for) and nobody takes back."""
    optimizers = [name for name, _ in parts("optimizer", given.get("optimizer"))]
    if not optimizers:
        return []
    asked = {"model", "extra", "rng", _run_group.ENTRY, *optimizers, *(name for name, _ in others(given))}
    return [n for n in read.nodes if n not in asked and not any(n.startswith(f"{name}.") for name in asked)]


def _find_memory(
    read: _state.Read, given: Mapping[str, Any], left: set[str], states: list[tuple[str, Any, Any]]
) -> None:
    model = given.get("model")
    if model is not None:
        read.model(model)
    names = _state.parameter_names(model, _modules(given))
    for key, optimizer in parts("optimizer", given.get("optimizer")):
        read.optimizer(key, optimizer, names)
    for name, one in others(given):
        if name in left:
            continue
        if _state.is_module(one):
            read.module(name, one)
        elif hasattr(one, "load_state_dict"):
            states.append((name, one.load_state_dict, read.tree(name)))
            states += [(name, put, state) for put, state in _begun(read, name, one)]
        elif hasattr(one, "set_epoch"):
            saved = read.tree(name)
            read.form(_state._has(saved, epoch=int), name)
            states.append((name, one.set_epoch, saved["epoch"]))
        else:
            raise TypeError(f"a run cannot keep {type(one)} (at {name})")
