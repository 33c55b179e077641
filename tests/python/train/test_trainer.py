# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.transformers with transformers' Trainer: killed and resumed, from_pretrained, limits, best, what is refused."""

import json
import os
import pathlib
import shutil
import sys
import warnings

import pytest
import torch
from common import assert_no_pickle, compare, no_room, say, train, train_together
from safetensors_c import Run, SafetensorError
from safetensors_c.transformers import RunTrainer
from transformers import (
    AutoModelForCausalLM,
    EarlyStoppingCallback,
    LlamaConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

STEPS = 12


class Data(torch.utils.data.Dataset):
    def __init__(self, count=32):
        g = torch.Generator().manual_seed(1)
        self.ids = torch.randint(0, 50, (count, 8), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Tell(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        if args.world_size > 1 and state.global_step == 0:
            torch.manual_seed(30 + args.process_index)  # as the data of each process may draw

    def on_step_end(self, args, state, control, model=None, lr_scheduler=None, **kwargs):
        weights = sum(p.detach().double().sum().item() for p in model.parameters())
        values = [weights.hex(), lr_scheduler.get_last_lr()[0].hex()]
        if args.world_size > 1:  # and the random state, each process's own
            values.append(torch.get_rng_state().double().dot(torch.arange(5056.0).double()).item().hex())
            say(f"{args.process_index}:{state.global_step:03d}", *values)
        else:
            say(state.global_step, *values)


def model_of(hidden=16, tie=True):
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=hidden,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        attention_dropout=0.1,
        tie_word_embeddings=tie,
    )
    return AutoModelForCausalLM.from_config(config)


def trainer_of(path, kind=RunTrainer, steps=STEPS, hidden=16, **options):
    arguments = {
        "save_steps": 2,
        "report_to": [],
        "disable_tqdm": True,
        "logging_strategy": "steps",
        "logging_steps": 1,
    }
    args = TrainingArguments(
        str(path),
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=0.01,
        warmup_steps=3,
        use_cpu=True,
        **{**arguments, **options},
    )
    return kind(
        model=model_of(hidden), args=args, train_dataset=Data(), eval_dataset=Data(8), callbacks=[Tell()]
    )


def steps_of(path):
    with Run(path, read_only=True) as run:
        return [s["step"] for s in run.steps() if s["complete"]]


def test_a_killed_training_goes_on_as_if_it_had_not_been(tmp_path):
    whole, status = train(__file__, tmp_path / "whole")
    assert status == 0 and len(whole) == STEPS
    pieces, newest = [], 0
    for kill in (4, 3, None):
        lines, status = train(__file__, tmp_path / "run", kill_after=kill)
        assert status == (0 if kill is None else -9)
        pieces.append(lines)
        if kill is not None and (tmp_path / "run").exists():  # on a busy machine nothing may be committed yet
            newest = max(steps_of(tmp_path / "run"), default=0)
    compare(whole, pieces)
    assert len(pieces[-1]) == STEPS - newest
    names = assert_no_pickle(tmp_path / "run")
    last = f"step-{STEPS:09d}/"
    assert {last + n for n in ("config.json", "trainer_state.json", "model.safetensors")} <= set(names)


@pytest.mark.parametrize("file", ["model.safetensors", "trainer_state.json", "state.json"])
def test_a_damaged_step_is_passed_over(tmp_path, file):
    """One bit, which only a digest finds."""
    whole, status = train(__file__, tmp_path / "whole")
    assert status == 0
    path = tmp_path / "run"
    trainer_of(path, steps=4).train()
    damaged = path / "step-000000004" / file
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.unlink()
    damaged.write_bytes(data)
    with pytest.warns(UserWarning, match=f"step-000000004 was passed over: {file} is damaged"):
        trainer = trainer_of(path)
        trainer.train(resume_from_checkpoint=True)
    assert steps_of(path) == [2, 4, 6, 8, 10, 12]
    weights = sum(p.detach().double().sum().item() for p in trainer.model.parameters())
    assert weights.hex() == whole[-1].split()[1]


def test_two_processes_are_killed_and_go_on(tmp_path):
    whole, status = train_together(2, __file__, tmp_path / "whole")
    assert status == 0 and len(whole) == 2 * STEPS
    pieces = []
    for kill in (9, 5, None):
        lines, status = train_together(2, __file__, tmp_path / "run", kill_after=kill)
        assert (status == 0) == (kill is None)
        pieces.append(lines)
    compare(whole, pieces)
    assert len(pieces[-1]) < len(whole)
    random = {tuple(x.split()[3] for x in whole if x[0] == rank) for rank in "01"}
    assert len(random) == 2
    assert_no_pickle(tmp_path / "run")
    # one process goes on with all but the random states
    trainer = trainer_of(tmp_path / "run", steps=STEPS + 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train(resume_from_checkpoint=True)
    [told] = [str(w.message) for w in caught if "saved by" in str(w.message)]
    assert (
        f"step {STEPS} was saved by 2 processes, and 1 resume it; not put back" in told
        and "rng.torch" in told
    )
    assert trainer.state.global_step == STEPS + 2
    assert trainer.state.log_history[STEPS]["step"] == STEPS + 1


BEST = {
    "steps": 10,
    "save_total_limit": 2,
    "eval_strategy": "steps",
    "eval_steps": 2,
    "load_best_model_at_end": True,
    "metric_for_best_model": "loss",
}


def test_two_processes_load_the_best(tmp_path):
    lines, status = train_together(2, __file__, tmp_path / "run", "best")
    assert status == 0
    best = [line.split()[1:] for line in lines if ":best" in line]
    assert len(best) == 2 and best[0] == best[1]
    path, weights = best[0]
    assert set(steps_of(tmp_path / "run")) == {8, 10, int(path[-9:])}
    kept = AutoModelForCausalLM.from_pretrained(path)
    assert sum(p.detach().double().sum().item() for p in kept.parameters()).hex() == weights


@pytest.mark.parametrize("kind", ["fsdp", "deepspeed"])
def test_processes_that_hold_parts_are_refused(tmp_path, kind):
    trainer = trainer_of(tmp_path, steps=2)
    setattr(trainer, f"is_{kind}_enabled", True)
    with pytest.raises(TypeError, match="whole in each process, not FSDP or DeepSpeed"):
        trainer.run  # noqa: B018


def test_from_pretrained_reads_a_step(tmp_path):
    trainer = trainer_of(tmp_path, steps=2)
    trainer.train()
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "step-000000002")
    ids = Data().ids[:2]
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, trainer.model.eval()(ids).logits)


def test_save_model_leaves_no_pickle(tmp_path):
    trainer = trainer_of(tmp_path / "run", steps=2)
    trainer.train()
    trainer.save_model()
    trainer.save_model(tmp_path / "final")
    for directory in (tmp_path / "run", tmp_path / "final"):
        assert_no_pickle(directory)
        assert json.loads((directory / "training_args.json").read_text())["max_steps"] == 2
        AutoModelForCausalLM.from_pretrained(directory)


def test_the_log_equals_that_of_trainer(tmp_path):
    logs = []
    for name, kind in (("theirs", Trainer), ("ours", RunTrainer)):
        trainer = trainer_of(tmp_path / name, kind, steps=4)
        trainer.train()
        first = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        trainer = trainer_of(tmp_path / name, kind, steps=8)
        trainer.train(resume_from_checkpoint=True)
        assert trainer.state.global_step == 8
        logs.append((first, [row["loss"] for row in trainer.state.log_history if "loss" in row]))
    assert logs[0] == logs[1]


def test_a_limit_keeps_the_newest_and_the_best(tmp_path):
    trainer = trainer_of(tmp_path, **BEST)
    trainer.train()
    best = trainer.state.best_global_step
    assert set(steps_of(tmp_path)) == {8, 10, best}
    assert trainer.state.best_model_checkpoint.endswith(f"step-{best:09d}")
    kept = AutoModelForCausalLM.from_pretrained(trainer.state.best_model_checkpoint)
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), trainer.model.parameters()))


def test_a_second_training_is_refused_before_it_begins(tmp_path):
    trainer_of(tmp_path, steps=8).train()
    seen = []

    class See(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            seen.append(state.global_step)

    for checkpoint, words in ((None, "from nothing"), (str(tmp_path / "step-000000004"), "from step 4")):
        trainer = trainer_of(tmp_path, steps=6)
        trainer.add_callback(See())
        with pytest.raises(FileExistsError, match=rf"{words}.*step-000000008.*rewind=True"):
            trainer.train(resume_from_checkpoint=checkpoint)
    assert seen == [] and steps_of(tmp_path) == [2, 4, 6, 8]
    trainer_of(tmp_path, steps=6).train(str(tmp_path / "step-000000004"), rewind=True)
    assert steps_of(tmp_path) == [2, 4, 6]
    newest = tmp_path / "step-000000006" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x55")
    with pytest.warns(UserWarning, match="step-000000006 was passed over"):
        trainer_of(tmp_path, steps=5, save_steps=1).train(resume_from_checkpoint=True)
    trainer_of(tmp_path, steps=4, save_total_limit=1).train(rewind=True)
    assert steps_of(tmp_path) == [4]
    trainer_of(tmp_path, steps=6).train(resume_from_checkpoint=True)
    assert (tmp_path / "latest").read_text() == "step-000000006\n"


def test_a_rewind_that_cannot_begin_removes_nothing(tmp_path):
    path, theirs = tmp_path / "run", tmp_path / "theirs"
    trainer_of(path, steps=8).train()
    trainer_of(theirs, Trainer, steps=2).train()
    broken = shutil.copytree(theirs / "checkpoint-2", theirs / "checkpoint-3")
    (broken / "trainer_state.json").write_text('{"global_step": "3"}')
    torn = shutil.copytree(theirs / "checkpoint-2", theirs / "checkpoint-4")
    (torn / "model.safetensors").write_bytes(b"no tensors")
    for checkpoint, words in (
        (path / "step-4", "valid checkpoint at .*step-4.*FileNotFoundError"),
        (path / "step-000000003", "no step .*step-000000003; .*: step-000000002, step-000000004"),
        (path / "checkpoint-4", "valid checkpoint at .*FileNotFoundError"),
        (broken, "global_step of .* is '3'"),
        (torn, None),
    ):
        with pytest.raises(Exception, match=words):
            trainer_of(path, steps=9).train(str(checkpoint), rewind=True)
        assert steps_of(path) == [2, 4, 6, 8]
    trainer = trainer_of(path, steps=9)
    trainer.train_dataset = None
    with pytest.raises(ValueError, match="train_dataset"):
        trainer.train(rewind=True)
    for begun in (None, str(path / "step-000000004")):
        trainer = trainer_of(path, steps=9)
        trainer.data_collator = None
        with pytest.raises(TypeError):
            trainer.train(begun, rewind=True)
    assert steps_of(path) == [2, 4, 6, 8]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer_of(path, steps=6).train(str(theirs / "checkpoint-2"), rewind=True)
    assert steps_of(path) == [2, 4, 6]


class Templates:
    """A processor that writes a directory, as tokenizers of several chat templates do."""

    def save_pretrained(self, directory):
        inner = pathlib.Path(directory, "additional_chat_templates")
        inner.mkdir()
        (inner / "tool_use.jinja").write_text("{{ tools }}")
        pathlib.Path(directory, "chat_template.jinja").write_text("{{ messages }}")


def test_a_processor_that_writes_a_directory(tmp_path):
    trainer = trainer_of(tmp_path, steps=2)
    trainer.processing_class = Templates()
    trainer.train()
    step = tmp_path / "step-000000002"
    assert (step / "additional_chat_templates" / "tool_use.jinja").read_text() == "{{ tools }}"
    assert (step / "chat_template.jinja").exists()
    trainer_of(tmp_path, steps=4).train(resume_from_checkpoint=True)
    assert steps_of(tmp_path) == [2, 4]


@pytest.mark.parametrize("first", [1.0, float("nan")])
def test_what_trainer_calls_the_best_stays(tmp_path, first):
    trainer = trainer_of(tmp_path, **{**BEST, "save_total_limit": 1})
    evaluate = trainer.evaluate

    def told(*args, **kwargs):
        found = evaluate(*args, **kwargs)
        found["eval_loss"] = first if trainer.state.global_step == 2 else 1.0
        trainer.state.log_history[-1]["eval_loss"] = found["eval_loss"]
        return found

    trainer.evaluate = told
    trainer.train()
    best = 2 if first == first else 4  # a NaN is never the best
    assert trainer.state.best_model_checkpoint.endswith(f"step-{best:09d}")
    assert set(steps_of(tmp_path)) == {best, 10}


def test_early_stopping_goes_on_counting(tmp_path):
    options = {
        "eval_strategy": "steps",
        "eval_steps": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": "loss",
        "restore_callback_states_from_checkpoint": True,
    }
    counts = []
    for name, kind in (("theirs", Trainer), ("ours", RunTrainer)):
        for steps in (4, 8):
            trainer = trainer_of(tmp_path / name, kind, steps=steps, **options)
            trainer.add_callback(
                EarlyStoppingCallback(early_stopping_patience=9, early_stopping_threshold=100.0)
            )
            trainer.train(resume_from_checkpoint=steps == 8)
        [stopping] = [c for c in trainer.callback_handler.callbacks if isinstance(c, EarlyStoppingCallback)]
        counts.append(stopping.early_stopping_patience_counter)
    assert counts[0] == counts[1] > 2


def test_only_complete_steps_are_resumed_from(tmp_path):
    trainer_of(tmp_path, steps=6).train()
    newest = tmp_path / "step-000000006" / "optimizer.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    (tmp_path / ".step-000000008.sft-part").mkdir()
    trainer = trainer_of(tmp_path, steps=6)
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.log_history[4]["step"] == 5
    whole = trainer_of(tmp_path / "whole", steps=6)
    whole.train()
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), trainer.model.parameters()))
    with pytest.raises(ValueError, match="No valid checkpoint"):
        trainer_of(tmp_path / "none", steps=2).train(resume_from_checkpoint=True)
    with pytest.raises(SafetensorError, match=r"\[50, 16\].*\[50, 8\]"):
        trainer_of(tmp_path, steps=8, hidden=8).train(resume_from_checkpoint=True)


def test_a_checkpoint_of_trainer_itself(tmp_path):
    trainer_of(tmp_path / "theirs", Trainer, steps=4).train()
    trainer = trainer_of(tmp_path / "ours", steps=6)
    trainer.train(resume_from_checkpoint=str(tmp_path / "theirs" / "checkpoint-4"))
    whole = trainer_of(tmp_path / "theirs", Trainer, steps=6)
    whole.train(resume_from_checkpoint=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), trainer.model.parameters()))


class Full(TrainerCallback):
    """From step 3 on, no file can be written."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            self.room = no_room()
            self.room.__enter__()

    def close(self):
        self.room.__exit__(None, None, None)


def test_a_failed_save_is_raised_and_old_steps_stay(tmp_path):
    trainer, full = trainer_of(tmp_path, steps=8), Full()
    trainer.add_callback(full)
    try:
        with pytest.raises((OSError, SafetensorError)):
            trainer.train()
    finally:
        full.close()
    assert steps_of(tmp_path) == [2]


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    where = pathlib.Path(sys.argv[1])
    if "RANK" in os.environ:
        say("pid", os.getpid())
    if sys.argv[2:] == ["best"]:
        trainer = trainer_of(where, **BEST)
        trainer.train()
        weights = sum(p.detach().double().sum().item() for p in trainer.model.parameters())
        say(f"{trainer.args.process_index}:best", trainer.state.best_model_checkpoint, weights.hex())
        sys.exit()
    trainer_of(where).train(resume_from_checkpoint=any(where.glob("step-*")))
