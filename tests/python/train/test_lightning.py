# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.lightning with Lightning itself: killed and resumed, what is stored, ModelCheckpoint's promises, what is refused."""

import os
import pathlib
import sys

import lightning
import pytest
import torch
from common import assert_no_pickle, compare, no_room, say, train, train_together
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from safetensors_c import SafetensorError
from safetensors_c.lightning import RandomStates, TreeCheckpointIO
from safetensors_c.tree import load_tree

EPOCHS = 5


class Net(lightning.LightningModule):
    def __init__(self, hidden=16, note=None):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2)
        )

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)]


class Tell(Callback):
    def on_train_epoch_end(self, trainer, module):
        weights = sum(p.detach().double().sum().item() for p in module.parameters())
        loss = trainer.callback_metrics["train_loss"].item()
        lr = trainer.optimizers[0].param_groups[0]["lr"]
        rank = f"{trainer.global_rank}:" if trainer.world_size > 1 else ""
        say(f"{rank}{trainer.current_epoch}", loss.hex(), weights.hex(), lr.hex())


def loaders():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(64, 6, generator=g)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=8), torch.utils.data.DataLoader(data, batch_size=16)


class Dropping(Net):
    """Each process draws its own random numbers."""

    def on_train_start(self):
        if self.trainer.global_step == 0:
            torch.manual_seed(50 + self.global_rank)

    def training_step(self, batch, at):
        return super().training_step([torch.nn.functional.dropout(batch[0], 0.3), batch[1]], at)


def trainer_of(path, plugin, epochs=EPOCHS, more=False, **options):
    keep = ModelCheckpoint(path, save_top_k=2, monitor="val_loss", save_last=True, **options)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    return lightning.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        max_epochs=epochs,
        default_root_dir=path,
        plugins=[plugin],
        callbacks=[Tell(), keep, RandomStates()] if more else [Tell(), keep],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def plugin_of(kind):
    return AsyncCheckpointIO(TreeCheckpointIO()) if kind == "async" else TreeCheckpointIO()


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_killed_training_goes_on_as_if_it_had_not_been(tmp_path, kind):
    whole, status = train(__file__, tmp_path / "whole", kind)
    assert status == 0 and len(whole) == EPOCHS
    pieces = []
    for kill in (2, 2, None):
        lines, status = train(__file__, tmp_path / "run", kind, kill_after=kill)
        assert status == (0 if kill is None else -9)
        pieces.append(lines)
    compare(whole, pieces)
    assert len(pieces[-1]) < EPOCHS
    names = assert_no_pickle(tmp_path / "run")
    # Lightning removes what it knows of: a kill between a save and its removal of the one before leaves that for good.
    assert "last.ckpt" in names and 3 <= len(names) <= 5


def test_two_processes_are_killed_and_go_on(tmp_path):
    """The first process writes the checkpoint, all read it, random states of both are in it."""
    whole, status = train_together(2, __file__, tmp_path / "whole", "two")
    assert status == 0 and len(whole) == 2 * EPOCHS
    pieces = []
    for kill in (4, 3, None):
        lines, status = train_together(2, __file__, tmp_path / "run", "two", kill_after=kill)
        assert (status == 0) == (kill is None)
        pieces.append(lines)
    compare(whole, pieces)
    assert len(pieces[-1]) < len(whole)
    names = assert_no_pickle(tmp_path / "run")
    assert "last.ckpt" in names and len(names) == 3
    states = load_tree(tmp_path / "run" / "last.ckpt")["callbacks"]["RandomStates"]["states"]
    assert len(states) == 2 and not torch.equal(states[0], states[1])
    # one process goes on with all but the random states
    trainer = trainer_of(tmp_path / "run", TreeCheckpointIO(), EPOCHS + 1, more=True)
    with pytest.warns(
        UserWarning, match="saved by 2 processes, and 1 resume it; not put back.*random states"
    ):
        trainer.fit(Dropping(), *loaders(), ckpt_path="last")
    assert trainer.current_epoch == EPOCHS + 1


def test_random_states_make_dropout_and_shuffling_exact(tmp_path):
    def last(path, *pieces):
        for epochs in pieces:
            lightning.seed_everything(6)
            trainer = trainer_of(path, TreeCheckpointIO(), epochs, more=True)
            model, (data, checked) = Dropping(), loaders()
            shuffled = torch.utils.data.DataLoader(data.dataset, batch_size=8, shuffle=True)
            trainer.fit(model, shuffled, checked, ckpt_path="last")
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    assert torch.equal(last(tmp_path / "whole", 4), last(tmp_path / "run", 1, 2, 4))


def test_what_a_checkpoint_holds_is_what_torch_save_would_have(tmp_path):
    plain = lightning.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_progress_bar=False, enable_checkpointing=False
    )
    lightning.seed_everything(1)
    plain.fit(Net(), *loaders())
    plain.save_checkpoint(tmp_path / "theirs.ckpt")
    theirs = torch.load(tmp_path / "theirs.ckpt", weights_only=False)
    io = TreeCheckpointIO()
    io.save_checkpoint(theirs, tmp_path / "ours.ckpt")
    ours = io.load_checkpoint(tmp_path / "ours.ckpt")
    same(theirs, ours, "")
    assert list(ours) == list(theirs)
    fresh = Net()
    fresh.load_state_dict(load_tree(tmp_path / "ours.ckpt")["state_dict"])
    assert Net(**ours["hyper_parameters"]).hparams == fresh.hparams


def same(a, b, at):
    if torch.is_tensor(a):
        assert a.dtype is b.dtype and torch.equal(a, b), at
    elif isinstance(a, dict):
        assert list(a) == list(b), at
        for k in a:
            same(a[k], b[k], f"{at}.{k}")
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b), at
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{at}.{i}")
    else:
        assert a == b and type(a) is type(b), at


def test_model_checkpoint_keeps_the_best_and_removes_the_others(tmp_path):
    lightning.seed_everything(2)
    trainer = trainer_of(tmp_path, TreeCheckpointIO())
    trainer.fit(Net(), *loaders())
    best = trainer.checkpoint_callback.best_model_path
    assert pathlib.Path(best).exists() and len(list(tmp_path.glob("epoch*.ckpt"))) == 2
    again = trainer_of(tmp_path, TreeCheckpointIO())
    [scores] = again.validate(Net(), loaders()[1], ckpt_path=best)
    assert scores["val_loss"] == pytest.approx(trainer.checkpoint_callback.best_model_score.item())


def test_a_value_without_a_form_is_refused_by_its_path(tmp_path):
    class Odd(Net):
        def on_save_checkpoint(self, checkpoint):
            checkpoint["mine"] = {"of": [1, object()]}

    for plugin in (TreeCheckpointIO(), AsyncCheckpointIO(TreeCheckpointIO())):
        with pytest.raises(TypeError, match=r"object.*mine\.of\.1"):
            trainer_of(tmp_path, plugin).fit(Odd(), *loaders())
    with pytest.raises(TypeError, match="storage_options"):
        TreeCheckpointIO().save_checkpoint({}, tmp_path / "x", storage_options={"a": 1})


def test_full_disks_and_damage(tmp_path):
    io = TreeCheckpointIO()
    tree = {"state_dict": {"w": torch.arange(1000.0)}, "epoch": 3}
    io.save_checkpoint(tree, tmp_path / "a.ckpt")
    with no_room(), pytest.raises((OSError, SafetensorError)):
        io.save_checkpoint({**tree, "epoch": 4}, tmp_path / "a.ckpt")
    assert io.load_checkpoint(tmp_path / "a.ckpt")["epoch"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]
    data = bytearray((tmp_path / "a.ckpt").read_bytes())
    data[-3] ^= 1
    (tmp_path / "a.ckpt").write_bytes(data)
    with pytest.raises(SafetensorError, match="CRC32C.*a.ckpt"):
        io.load_checkpoint(tmp_path / "a.ckpt")
    with pytest.raises(FileNotFoundError):
        io.load_checkpoint(tmp_path / "b.ckpt")
    io.remove_checkpoint(tmp_path / "a.ckpt")
    io.remove_checkpoint(tmp_path / "a.ckpt")
    torch.save({"evil": 1}, tmp_path / "p.ckpt")
    with pytest.raises(SafetensorError):
        io.load_checkpoint(tmp_path / "p.ckpt")  # a pickle is not read
    with pytest.raises(RuntimeError, match="size mismatch"):
        trainer = trainer_of(tmp_path, io, 1)
        trainer.fit(Net(), *loaders())
        trainer_of(tmp_path, io).fit(Net(hidden=5), *loaders(), ckpt_path=str(tmp_path / "last.ckpt"))


if __name__ == "__main__":
    lightning.seed_everything(4)
    where = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "two":
        say("pid", os.getpid())
        trainer_of(where, TreeCheckpointIO(), more=True).fit(Dropping(), *loaders(), ckpt_path="last")
        sys.exit()
    trainer_of(where, plugin_of(sys.argv[2])).fit(Net(), *loaders(), ckpt_path="last")
