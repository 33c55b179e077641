# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an Accelerator has prepared, in a Run: save_state and load_state without pickle.

    run = Run("run", keep_last=3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = Batches(loader)                                   # safetensors_c.run: iterate over this
    step, extra = load_state(run, accelerator, batches=batches)
    ...
    save_state(run, accelerator, step, batches=batches, extra={"epoch": epoch})

Of many processes: Run("run", group=torch.distributed.group.WORLD), and the same calls in all of them.

Kept are the models, optimizers, schedulers, data loaders, the scaler, the objects of register_for_checkpointing, the counter
of gradient accumulation and the random states. docs/trainers.md says what is refused.
"""

from __future__ import annotations

from accelerate.data_loader import SeedableRandomSampler
from accelerate.utils import DistributedType

from ._run_batches import sampler_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Handle, Resumed, Run

__all__ = ["load_state", "save_state"]

_WHOLE = (
    "NO",
    "MULTI_CPU",
    "MULTI_GPU",
    "MULTI_XPU",
    "MULTI_NPU",
    "MULTI_MLU",
    "MULTI_MUSA",
    "MULTI_SDAA",
    "MULTI_HPU",
)
_REPLICAS = {DistributedType[name] for name in _WHOLE if name in DistributedType.__members__}


class _Loader:
    """Where a prepared data loader is, as far as it tells: the whole of a stateful one; else which epoch its sampler is in and
    the state of its generator. The position within an epoch is that of Batches, or the program's (skip_first_batches)."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.stateful = bool(getattr(loader, "use_stateful_dataloader", False))

    def _sampler(self) -> Any:
        return sampler_of(self.loader)

    def state_dict(self) -> dict[str, Any]:
        sampler = self._sampler()
        generator = getattr(sampler, "generator", None)
        state: dict[str, Any] = {"generator": None if generator is None else generator.get_state()}
        if self.stateful:
            state["loader"] = self.loader.state_dict()
        if isinstance(sampler, SeedableRandomSampler):
            state.update(epoch=sampler.epoch, initial_seed=sampler.initial_seed)
        elif hasattr(sampler, "state_dict"):
            state["sampler"] = sampler.state_dict()
        if hasattr(self.loader, "iteration"):
            state["iteration"] = self.loader.iteration
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.stateful != ("loader" in state):
            raise ValueError(
                "the step has a stateful data loader where this program has a plain one, or the reverse"
            )
        sampler = self._sampler()
        if state["generator"] is not None:
            if getattr(sampler, "generator", None) is None:
                import torch

                sampler.generator = torch.Generator()
            sampler.generator.set_state(state["generator"])
        if "epoch" in state:
            sampler.epoch, sampler.initial_seed = state["epoch"], state["initial_seed"]
        elif "sampler" in state:
            sampler.load_state_dict(state["sampler"])
        if "iteration" in state:
            self.loader.iteration = state["iteration"]
        if self.stateful:
            self.loader.load_state_dict(state["loader"])


class _Stateful(_Loader):
    """Tells which batches were taken: of each process its own."""

    def __iter__(self) -> Any:
        return iter(self.loader)


def _loader(loader: Any) -> _Loader:
    return _Stateful(loader) if getattr(loader, "use_stateful_dataloader", False) else _Loader(loader)


class _Counters:
    def __init__(self, accelerator: Any) -> None:
        self.accelerator = accelerator

    def state_dict(self) -> dict[str, int]:
        return {"step": self.accelerator.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.accelerator.step = state["step"]


def _one_or_more(objects: list[Any], name: str) -> Any:
    return objects[0] if len(objects) == 1 else {f"{name}_{i}": x for i, x in enumerate(objects)}


def _objects(run: Run, accelerator: Any, hooks: Any) -> dict[str, Any]:
    """What Run.save and Run.resume take."""
    if accelerator.distributed_type not in _REPLICAS:
        raise TypeError(
            "save_state and load_state keep models that are whole in each process, not those of"
            f" {accelerator.distributed_type.value}"
        )
    if accelerator.num_processes != run.size:
        raise TypeError(
            f"the accelerator has {accelerator.num_processes} processes, the run {run.size}: open it with"
            " group=torch.distributed.group.WORLD"
        )
    if hooks:
        raise TypeError("a run cannot keep what hooks of save_state or load_state write into a directory")
    given: dict[str, Any] = {"counters": _Counters(accelerator)}
    models = [accelerator.unwrap_model(m) for m in accelerator._models]
    if models:
        given["model"] = _one_or_more(models, "model")
    optimizers = [getattr(o, "optimizer", o) for o in accelerator._optimizers]
    if optimizers:
        given["optimizer"] = _one_or_more(optimizers, "optimizer")
    lists = {
        "scheduler": accelerator._schedulers,
        "loader": [_loader(d) for d in accelerator._dataloaders],
        "custom": accelerator._custom_objects,
    }
    given.update({name: {str(i): x for i, x in enumerate(found)} for name, found in lists.items() if found})
    if accelerator.scaler is not None:
        given["scaler"] = accelerator.scaler
    return given


def save_state(run: Run, accelerator: Any, step: int, **options: Any) -> Handle:
    """Saves all that the accelerator has prepared as a step. options: those of Run.save (extra, metrics, files, replace, and
    further objects by names: batches=).

    Raises TypeError for models in shards (FSDP, DeepSpeed, Megatron-LM), for hooks, and with the path of a value that a step
    cannot hold; and the error of an earlier save that failed behind.
    """
    return run.save(step, **_objects(run, accelerator, accelerator._save_model_state_pre_hook), **options)


def load_state(
    run: Run, accelerator: Any, step: int | None = None, *, rewind: bool = False, **objects: Any
) -> Resumed:
    """Puts the newest complete step, or the one given, into what the accelerator has prepared, in place. rewind: the steps
    above it are removed then, so that training goes on from it. objects: the further ones of save_state. Another number of processes than saved it takes over all but the random states and positions, which a
    warning and run.left_behind name."""
    given = _objects(run, accelerator, accelerator._load_model_state_pre_hook)
    return run.resume(step=step, rewind=rewind, **given, **objects)
