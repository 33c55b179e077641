# SPDX-License-Identifier: Apache-2.0 OR MIT
"""transformers' Trainer whose checkpoints are the steps of a Run: whole, verified, without pickle.

    from safetensors_c.transformers import RunTrainer

    trainer = RunTrainer(model=model, args=args, train_dataset=dataset)  # instead of Trainer
    trainer.train(resume_from_checkpoint=True)                          # from the newest complete step

args.output_dir is the run: `output_dir/step-000000500` is a directory that `from_pretrained` reads, with the optimizer,
scheduler, scaler, random states and trainer_state.json in it. docs/trainers.md says what is kept and what is refused.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings

import torch.distributed
from transformers import Trainer, TrainerCallback
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_callback import ExportableState

from .run import Run, _some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["RunMixin", "RunTrainer"]

_STATE = "trainer_state.json"
_WORD = "trainer.train(rewind=True)"


def _number(directory: str) -> int | None:
    """The step of a directory's name, None if it is no step's."""
    name = os.path.basename(os.path.normpath(directory))
    digits = name[5:]
    return int(digits) if name.startswith("step-") and len(digits) >= 9 and digits.isdigit() else None


class RunMixin:
    """For a Trainer of your own: `class MyTrainer(RunMixin, Trainer)`.

    save_total_limit: so many of the newest steps stay, and beside them the newest complete one and the best by
    metric_for_best_model always, and the one that state.best_model_checkpoint names. Writing goes on behind training; the error of a save that failed is raised at the next one,
    at the latest when train returns. A directory that Trainer itself has written is resumed from as Trainer does.
    """

    _run: Run | None = None
    _goes_on: int | None = None  # the steps above it go before the first update

    @property
    def run(self) -> Run:
        """The run in args.output_dir, opened for writing when it is first wanted; train closes it."""
        if self._run is None:
            args = self.args  # type: ignore[attr-defined]
            if self.is_fsdp_enabled or self.is_deepspeed_enabled:  # type: ignore[attr-defined]
                raise TypeError(
                    "RunTrainer keeps models that are whole in each process, not FSDP or DeepSpeed"
                )
            best = self._best_key()
            self._run = Run(
                args.output_dir,
                group=torch.distributed.group.WORLD if args.world_size > 1 else None,
                timeout=args.ddp_timeout,
                keep_last=args.save_total_limit or 0,
                keep_best=1 if best and args.save_total_limit else 0,
                best=best if args.save_total_limit else None,
                mode="max" if args.greater_is_better else "min",
            )
        return self._run

    def _best_key(self) -> str | None:
        name = self.args.metric_for_best_model  # type: ignore[attr-defined]
        return name if name is None or name.startswith("eval_") else f"eval_{name}"

    def _step_directory(self, step: int) -> str:
        return os.path.join(self.args.output_dir, f"step-{step:09d}")  # type: ignore[attr-defined]

    # -- save

    def _texts(self) -> dict[str, bytes]:
        """Of the first process: the small files beside the weights: configuration, tokenizer or processor, arguments, state."""
        files: dict[str, bytes] = {}
        if self.run.rank > 0:
            return files
        with tempfile.TemporaryDirectory() as directory:
            model = self.accelerator.unwrap_model(self.model)  # type: ignore[attr-defined]
            parts: tuple[Any, ...] = (
                getattr(model, "config", None),
                getattr(model, "generation_config", None) if getattr(model, "can_generate", bool)() else None,
                getattr(self, "processing_class", None),
            )
            for part in parts:
                if hasattr(part, "save_pretrained"):
                    part.save_pretrained(directory)
            for where, _, names in os.walk(directory):
                for name in names:
                    path = os.path.join(where, name)
                    with open(path, "rb") as f:
                        files[os.path.relpath(path, directory).replace(os.sep, "/")] = f.read()
            path = os.path.join(directory, _STATE)
            self.state.save_to_json(path)  # type: ignore[attr-defined]
            with open(path, "rb") as f:
                files[_STATE] = f.read()
        files["training_args.json"] = self.args.to_json_string().encode()  # type: ignore[attr-defined]
        return files

    def _export_callbacks(self) -> None:
        """Into the state, as Trainer does before it saves."""
        handler, control = self.callback_handler, self.control  # type: ignore[attr-defined]
        kept = self.state.stateful_callbacks  # type: ignore[attr-defined]
        for callback in [*handler.callbacks, control]:
            if isinstance(callback, ExportableState):
                name = type(callback).__name__
                if isinstance(kept.get(name), list):
                    kept[name].append(callback.state())
                else:
                    kept[name] = callback.state()

    def _metrics(self) -> dict[str, float]:
        """Of the evaluation at this step, if there was one."""
        state = self.state  # type: ignore[attr-defined]
        found: dict[str, float] = {}
        for row in reversed(state.log_history):
            if row.get("step") != state.global_step:
                break
            found.update(
                {k: v for k, v in row.items() if k.startswith("eval_") and isinstance(v, (int, float))}
            )
        return found

    def _given(self) -> dict[str, Any]:
        """The objects of save and resume."""
        optimizer, scaler = self.optimizer, self.accelerator.scaler  # type: ignore[attr-defined]
        given: dict[str, Any] = {"model": self.accelerator.unwrap_model(self.model)}  # type: ignore[attr-defined]
        if not self.args.save_only_model:  # type: ignore[attr-defined]
            given["optimizer"] = getattr(optimizer, "optimizer", optimizer)
            given["scheduler"] = self.lr_scheduler  # type: ignore[attr-defined]
            if scaler is not None:
                given["scaler"] = scaler
        return given

    def _best_step(self) -> int | None:
        """The step of this run that Trainer calls the best, if it is there."""
        state = self.state  # type: ignore[attr-defined]
        step = self._of_run(state.best_model_checkpoint)
        there = step == state.global_step or step in self.run._staged
        return step if there or os.path.isdir(state.best_model_checkpoint or "") else None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if trial is not None or getattr(self, "hp_search_backend", None) is not None:
            raise TypeError("RunTrainer keeps one training, not the trials of a search")
        self.store_flos()  # type: ignore[attr-defined]
        state = self.state  # type: ignore[attr-defined]
        if state.best_global_step:
            best = self._step_directory(state.best_global_step)
            if state.best_global_step == state.global_step or os.path.isdir(best):
                state.best_model_checkpoint = best
        self._export_callbacks()
        self.run.save(
            state.global_step,
            **self._given(),
            rng=not self.args.save_only_model,  # type: ignore[attr-defined]
            metrics=self._metrics(),
            files=self._texts(),
            replace=True,
            keep=self._best_step(),
        )
        if self.args.push_to_hub:  # type: ignore[attr-defined]
            self.run.wait()
            self._push_from_checkpoint(self._step_directory(state.global_step))  # type: ignore[attr-defined]

    # -- resume

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """For save_model, too: the arguments as JSON, in place of the pickle."""
        super()._save(output_dir, state_dict)  # type: ignore[misc]
        directory = output_dir if output_dir is not None else self.args.output_dir  # type: ignore[attr-defined]
        pickled = os.path.join(directory, TRAINING_ARGS_NAME)
        if self.args.should_save and os.path.lexists(pickled):  # type: ignore[attr-defined]
            os.unlink(pickled)
            with open(os.path.join(directory, "training_args.json"), "w", encoding="utf-8") as f:
                f.write(self.args.to_json_string())  # type: ignore[attr-defined]

    def _of_run(self, checkpoint: Any) -> int | None:
        """The number of a directory that is a step of this run."""
        if checkpoint is None:
            return None
        step = _number(os.fspath(checkpoint))
        own = os.path.realpath(self.args.output_dir)  # type: ignore[attr-defined]
        return step if os.path.dirname(os.path.realpath(checkpoint)) == own else None

    def _newest(self) -> str:
        """The newest step that is complete and verified; the first process looks, for all."""
        newest, passed = self.run._newest_good() if self.run.rank == 0 else (None, [])
        for step in passed:
            warnings.warn(f"{step['name']} was passed over: {step['why']}", stacklevel=3)
        number, group = -1 if newest is None else newest, self.run._group
        if group is not None:
            number = group.of_first(number)
        if number >= 0:
            return self._step_directory(number)
        raise ValueError(f"No valid checkpoint found in output directory ({self.args.output_dir})")  # type: ignore[attr-defined]

    def _step_of(self, checkpoint: Any) -> int:
        """Which step a checkpoint is, of this run or of Trainer's own making; 0: training begins from nothing."""
        if not checkpoint:
            return 0
        step = self._of_run(checkpoint)
        if step is not None:
            if not os.path.isdir(checkpoint):
                there = [s["name"] for s in self.run.steps() if s["complete"]]
                raise ValueError(
                    f"there is no step {checkpoint}; steps of the run that are complete: {_some(there) or 'none'}"
                )
            return step
        path = os.path.join(checkpoint, _STATE)
        try:
            with open(path, encoding="utf-8") as f:
                found = json.load(f)["global_step"]
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise ValueError(
                f"Can't find a valid checkpoint at {checkpoint}: which step it is cannot be read from {path}:"
                f" {type(e).__name__}: {e}"
            ) from e
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise ValueError(
                f"Can't find a valid checkpoint at {checkpoint}: global_step of {path} is {found!r}"
            )
        return found

    def _begin(self, checkpoint: Any, rewind: bool) -> None:
        """Before training begins from a step of this run, from a checkpoint of Trainer's own making, or from nothing."""
        step = self.run._begin_training(lambda: self._step_of(checkpoint), rewind, _WORD, remove=False)
        self._goes_on = step if rewind else None

    def _begin_updates(self) -> None:
        """All is loaded, and the first batch is there: what lies beyond can go."""
        step, self._goes_on = self._goes_on, None
        if step is not None:
            self.run._begin_training(step, True, _WORD)

    def train(
        self, resume_from_checkpoint: Any = None, *args: Any, rewind: bool = False, **kwargs: Any
    ) -> Any:
        """As Trainer's. FileExistsError before the first update where the run holds steps beyond the one from which training
        begins; rewind=True removes them before the first update, once everything is loaded."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = self._newest()
        elif resume_from_checkpoint and _number(os.fspath(resume_from_checkpoint)) is not None:
            if self._of_run(resume_from_checkpoint) is None:
                raise ValueError(
                    f"{resume_from_checkpoint} is a step of another run than args.output_dir,"
                    f" {self.args.output_dir}: make that the output_dir"  # type: ignore[attr-defined]
                )
        first = _First(self)
        self.add_callback(first)  # type: ignore[attr-defined]
        try:
            if str(self.args.save_strategy.value) != "no":  # type: ignore[attr-defined]
                self._begin(resume_from_checkpoint, rewind)
            result = super().train(resume_from_checkpoint, *args, **kwargs)  # type: ignore[misc]
        except BaseException:
            run, self._run = self._run, None
            if run is not None:
                run.__exit__(Exception, Exception(), None)  # a failed save is a warning beside the error
            raise
        finally:
            self._goes_on = None
            self.remove_callback(first)  # type: ignore[attr-defined]
        run, self._run = self._run, None
        if run is not None:
            run.close()
        return result

    def _resume(self, step: int, **given: Any) -> None:
        with warnings.catch_warnings():  # steps beyond were asked about, and go before the first update
            warnings.filterwarnings("ignore", "the run has newer steps", UserWarning)
            self.run.resume(step=step, **given)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self._of_run(resume_from_checkpoint) is None:  # else: weights come with the optimizer, verified
            super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        step = self._of_run(checkpoint)
        if step is None:
            super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]
        else:
            self._resume(step, rng=False, **self._given())

    def _load_scaler(self, checkpoint: str | None) -> None:
        if self._of_run(checkpoint) is None:
            super()._load_scaler(checkpoint)  # type: ignore[misc]

    def _load_rng_state(self, checkpoint: str | None) -> None:
        step = self._of_run(checkpoint)
        if step is None:
            super()._load_rng_state(checkpoint)  # type: ignore[misc]
        else:
            self._resume(step)

    def _load_best_model(self) -> None:
        self.run.wait()
        super()._load_best_model()  # type: ignore[misc]


class _First(TrainerCallback):
    """While train runs: says when the first update begins."""

    def __init__(self, trainer: RunMixin) -> None:
        self.trainer = trainer

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer._begin_updates()


class RunTrainer(RunMixin, Trainer):
    """Trainer whose checkpoints are the steps of a Run in args.output_dir."""
