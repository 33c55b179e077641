# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.skorch with skorch itself: killed and resumed, what is stored, and what Checkpoint and LoadInitState promise."""

import pathlib
import sys

import numpy as np
import pytest
import torch
from common import assert_no_pickle, compare, no_room, say, train
from safetensors_c import Run, SafetensorError, safe_open
from safetensors_c import skorch as ours
from safetensors_c.skorch import LoadRun, RunCheckpoint, load_net, save_net
from sklearn.base import clone
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, Freezer, LRScheduler, Unfreezer
from skorch.exceptions import SkorchException

EPOCHS = 12


class Module(torch.nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, hidden), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(hidden, 3)
        )

    def forward(self, x):
        return torch.softmax(self.layers(x), -1)


def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(160, 8)).astype(np.float32)
    return x, (x @ rng.normal(size=(8, 3))).argmax(1).astype(np.int64)


class Tell(Callback):
    def on_epoch_end(self, net, **kwargs):
        row = net.history[-1]
        weights = sum(p.detach().double().sum().item() for p in net.module_.parameters())
        lr = net.optimizer_.param_groups[0]["lr"]
        best = row["valid_loss_best"]
        say(
            row["epoch"],
            row["train_loss"].hex(),
            float(row["valid_loss"]).hex(),
            weights.hex(),
            lr.hex(),
            best,
        )


def make(run, epochs=EPOCHS, late=False, **options):
    """late: the checkpoint comes before the callbacks that it depends on."""
    torch.manual_seed(3)
    checkpoint = RunCheckpoint(run, **options)
    ours = [("save", checkpoint), ("load", LoadRun(checkpoint))]
    others = [
        ("lr", LRScheduler(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=EPOCHS)),
        ("stop", EarlyStopping(patience=EPOCHS)),
        ("tell", Tell()),
    ]
    return NeuralNetClassifier(
        Module,
        max_epochs=epochs,
        lr=0.01,
        optimizer=torch.optim.AdamW,
        iterator_train__shuffle=True,
        batch_size=32,
        callbacks=ours + others if late else others + ours,
        verbose=0,
    )


@pytest.mark.parametrize("late", [False, True])
def test_a_killed_training_goes_on_as_if_it_had_not_been(tmp_path, late):
    whole, status = train(__file__, tmp_path / "whole", late)
    assert status == 0 and len(whole) == EPOCHS
    pieces = []
    for kill in (3, 2, 4, None):
        lines, status = train(__file__, tmp_path / "run", late, kill_after=kill)
        assert status == (0 if kill is None else -9)
        pieces.append(lines)
    compare(whole, [p for p in pieces if p])
    assert len(pieces[-1]) < EPOCHS
    files = assert_no_pickle(tmp_path / "run")
    assert f"step-{EPOCHS:09d}/optimizer.safetensors" in files
    with safe_open(tmp_path / "run" / f"step-{EPOCHS:09d}" / "model.safetensors", "pt") as f:
        assert set(f.keys()) == set(Module().state_dict())


@pytest.mark.parametrize("at", [1, 3])
def test_what_is_frozen_stays_frozen(tmp_path, at):
    def fit(directory, callbacks, epochs):
        torch.manual_seed(3)
        checkpoint = RunCheckpoint(directory)
        chain = [
            checkpoint,
            LoadRun(checkpoint),
            Freezer("layers.0.*"),
            Unfreezer("layers.0.bias", at=at),
            *callbacks,
        ]
        net = NeuralNetClassifier(Module, max_epochs=epochs, callbacks=chain, verbose=0, train_split=None)
        return net.fit(*data())

    whole = fit(tmp_path / "whole", [], 4)
    fit(tmp_path / "cut", [], 2)
    again = fit(tmp_path / "cut", [], 4)
    assert again.history[:, "train_loss"] == whole.history[:, "train_loss"]
    wanted = [p.requires_grad for p in whole.module_.parameters()]
    assert [p.requires_grad for p in again.module_.parameters()] == wanted and False in wanted


@pytest.mark.parametrize("total", [True, False])
def test_a_fit_that_was_stopped_early_has_ended(tmp_path, total):
    def fit():
        torch.manual_seed(3)
        checkpoint = RunCheckpoint(tmp_path)
        stop = EarlyStopping("train_loss", patience=2, threshold=10.0)
        chain = [checkpoint, LoadRun(checkpoint, total), stop]
        net = NeuralNetClassifier(Module, max_epochs=9, callbacks=chain, verbose=0, train_split=None)
        return net.fit(*data())

    ended = len(fit().history)
    assert ended < 9 and len(fit().history) == (ended if total else ended + 2)


def test_history_optimizer_and_callbacks_come_back(tmp_path):
    x, y = data()
    net = make(tmp_path / "run", 5)
    net.fit(x, y)
    again = make(tmp_path / "run", 5)
    again.fit(x, y)  # nothing is left to train
    assert [r["train_loss"] for r in again.history] == [r["train_loss"] for r in net.history]
    assert again.max_epochs == 5
    again.set_params(callbacks__load__total=False)
    one, two = net.optimizer_.state_dict(), again.optimizer_.state_dict()
    assert one["param_groups"] == two["param_groups"]
    for i, state in one["state"].items():
        assert all(torch.equal(v, two["state"][i][k]) for k, v in state.items())


def test_a_second_fit_is_refused_before_it_begins(tmp_path):
    x, y = data()
    make(tmp_path / "run", 5).fit(x, y)
    anew = make(tmp_path / "run", 3)
    anew.set_params(callbacks__load=None)
    with pytest.raises(FileExistsError, match="from nothing.*step-000000005.*rewind=True"):
        anew.fit(x, y)
    with Run(tmp_path / "run", read_only=True) as run:
        assert [s["step"] for s in run.steps()] == [1, 2, 3, 4, 5]
    anew = make(tmp_path / "run", 3, rewind=True, keep_last=2)
    anew.set_params(callbacks__load=None)
    anew.fit(x, y)
    with Run(tmp_path / "run", read_only=True) as run:
        assert [s["step"] for s in run.steps()] == [2, 3]
    make(tmp_path / "run", 4).fit(x, y)  # goes on
    with Run(tmp_path / "run", read_only=True) as run:
        assert [s["step"] for s in run.steps()] == [2, 3, 4]


def test_monitor_is_that_of_checkpoint(tmp_path):
    x, y = data()
    torch.manual_seed(0)
    theirs = NeuralNetClassifier(
        Module,
        max_epochs=6,
        callbacks=[Checkpoint(dirname=str(tmp_path / "theirs"))],
        verbose=0,
        train_split=None,
    )
    theirs.set_params(callbacks__Checkpoint__monitor="train_loss_best")
    theirs.fit(x, y)
    torch.manual_seed(0)
    ours = NeuralNetClassifier(
        Module,
        max_epochs=6,
        verbose=0,
        train_split=None,
        callbacks=[RunCheckpoint(tmp_path / "r", "train_loss_best")],
    )
    ours.fit(x, y)
    events = [bool(v) for v in theirs.history[:, "event_cp"]]
    assert [bool(v) for v in ours.history[:, "event_cp"]] == events
    with Run(tmp_path / "r", read_only=True) as run:
        assert [s["step"] for s in run.steps()] == [i + 1 for i, due in enumerate(events) if due]
    chosen = NeuralNetClassifier(
        Module,
        max_epochs=4,
        verbose=0,
        callbacks=[RunCheckpoint(tmp_path / "c", lambda n: len(n.history) % 2 == 0)],
    )
    chosen.fit(x, y)
    with Run(tmp_path / "c", read_only=True) as run:
        assert [s["step"] for s in run.steps()] == [2, 4]
    missing = NeuralNetClassifier(
        Module, max_epochs=2, verbose=0, callbacks=[RunCheckpoint(tmp_path / "m", "no_such")]
    )
    with pytest.raises(SkorchException, match="no_such"):
        missing.fit(x, y)


def test_save_and_load_a_net_by_hand(tmp_path):
    x, y = data()
    net = NeuralNetClassifier(Module, max_epochs=2, verbose=0).fit(x, y)
    with Run(tmp_path / "run") as run:
        save_net(run, net).committed.result()
        other = NeuralNetClassifier(Module, verbose=0).initialize()
        assert load_net(run, other).step == 2
        assert np.array_equal(net.predict_proba(x), other.predict_proba(x))
        assert list(other.history[:, "train_loss"]) == list(net.history[:, "train_loss"])
        with pytest.raises(SafetensorError, match=r"layers\.0\.weight.*\[16, 8\].*\[32, 8\]"):
            load_net(run, NeuralNetClassifier(Module, module__hidden=32, verbose=0).initialize())


class Distance(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, a, b):
        return (self.scale * (a - b)).square().mean() + self.scale.square()


def test_a_criterion_that_learns(tmp_path):
    x, _ = data()
    y = x[:, :1] * 2

    def made(total):
        torch.manual_seed(1)
        checkpoint = RunCheckpoint(tmp_path / total)
        return NeuralNetRegressor(
            torch.nn.Linear,
            criterion=Distance,
            module__in_features=8,
            module__out_features=1,
            max_epochs=6 if total == "whole" else 3,
            verbose=0,
            callbacks=[checkpoint, LoadRun(checkpoint, total=False)],
        )

    whole = made("whole").fit(x, y)
    made("pieces").fit(x, y)
    rest = made("pieces").fit(x, y)
    assert torch.equal(whole.criterion_.scale, rest.criterion_.scale)
    assert torch.equal(whole.module_.weight, rest.module_.weight)


class Counting(Callback):
    def initialize(self):
        self.seen_ = 0
        return self


class Late(Callback):
    """What it remembers appears when training begins."""

    def on_train_begin(self, net, **kwargs):
        self.late_ = 0


class Keeping(Counting):
    def on_epoch_end(self, net, **kwargs):
        self.seen_ += 1

    def state_dict(self):
        return {"seen": self.seen_}

    def load_state_dict(self, state):
        self.seen_ = state["seen"]


def test_a_callback_that_is_not_kept_is_named(tmp_path):
    x, y = data()
    checkpoint = RunCheckpoint(tmp_path / "run")
    net = NeuralNetClassifier(Module, max_epochs=1, verbose=0, callbacks=[("mine", Counting()), checkpoint])
    with pytest.warns(UserWarning, match=r"mine \(seen_\)"):
        net.fit(x, y)
    callbacks = [RunCheckpoint(tmp_path / "late"), ("mine", Late())]
    net = NeuralNetClassifier(Module, max_epochs=1, verbose=0, callbacks=callbacks)
    with pytest.warns(UserWarning, match=r"mine \(late_\)"):
        net.fit(x, y)
    for epochs in (2, 5):
        checkpoint = RunCheckpoint(tmp_path / "kept")
        callbacks = [("mine", Keeping()), ("c", checkpoint), ("l", LoadRun(checkpoint))]
        net = NeuralNetClassifier(Module, max_epochs=epochs, verbose=0, callbacks=callbacks).fit(x, y)
    assert dict(net.callbacks_)["mine"].seen_ == 5


def test_a_failed_save_is_raised(tmp_path):
    """skorch's own Checkpoint says it to a sink, which by default drops it."""
    x, y = data()
    net = make(tmp_path / "run", 3).fit(x, y)
    net.set_params(max_epochs=2)
    dict(net.callbacks_)["tell"].on_epoch_end = lambda *a, **k: None  # it writes, too
    with no_room(), pytest.raises((OSError, SafetensorError), match="too large"):
        net.partial_fit(x, y)
    with Run(tmp_path / "run") as run:
        assert [s["step"] for s in run.steps()] == [1, 2, 3]


def test_a_damaged_step_is_passed_over(tmp_path):
    x, y = data()
    make(tmp_path / "run", 4).fit(x, y)
    newest = tmp_path / "run" / "step-000000004" / "optimizer.safetensors"
    newest.write_bytes(newest.read_bytes()[:-4])
    net = NeuralNetClassifier(
        Module, optimizer=torch.optim.AdamW, lr=0.01, verbose=0, iterator_train__shuffle=True
    ).initialize()
    with Run(tmp_path / "run") as run, pytest.warns(UserWarning, match="step-000000004"):
        assert load_net(run, net).step == 3


def test_cloned_nets_and_a_load_without_a_checkpoint(tmp_path):
    for epochs in (2, 4):
        net = clone(make(tmp_path / "run", epochs)).fit(*data())
        assert len(net.history) == epochs
    assert (tmp_path / "run" / "latest").read_text() == "step-000000004\n"
    load = LoadRun(RunCheckpoint(tmp_path / "run"), total=False)
    more = make(tmp_path / "other", 1).set_params(callbacks__save=None, callbacks__load=load).fit(*data())
    assert len(more.history) == 5
    assert not (tmp_path / "other").exists()


# ---------------------------------------------------------------- files by the names that skorch has for them


class Net(ours.SafetensorsMixin, NeuralNetClassifier):
    pass


def files_net(directory, epochs, **options):
    torch.manual_seed(3)
    checkpoint = ours.Checkpoint(None, dirname=str(directory), **options)
    return Net(
        Module,
        max_epochs=epochs,
        lr=0.01,
        optimizer=torch.optim.AdamW,
        train_split=None,
        callbacks=[("save", checkpoint), ("load", ours.LoadInitState(checkpoint))],
        verbose=0,
    )


def same_state(one, two):
    assert one["param_groups"] == two["param_groups"] and one["state"].keys() == two["state"].keys()
    for i, state in one["state"].items():
        assert all(torch.equal(v, two["state"][i][k]) for k, v in state.items())


def test_checkpoint_keeps_the_optimizer_in_safetensors(tmp_path):
    x, y = data()
    net = files_net(tmp_path, 4).fit(x, y)
    names = assert_no_pickle(tmp_path)
    assert names == ["criterion.safetensors", "history.json", "optimizer.safetensors", "params.safetensors"]
    with safe_open(tmp_path / "params.safetensors", "pt") as f:
        assert set(f.keys()) == set(Module().state_dict())
    again = files_net(tmp_path, 0).fit(x, y)
    assert len(again.history) == 4
    same_state(net.optimizer_.state_dict(), again.optimizer_.state_dict())
    for a, b in zip(net.module_.parameters(), again.module_.parameters()):
        assert torch.equal(a, b)
    copied = clone(again).fit(x, y)
    assert type(copied.callbacks[0][1]) is ours.Checkpoint and len(copied.history) == 4


def test_train_end_checkpoint_and_open_files(tmp_path):
    x, y = data()
    end = ours.TrainEndCheckpoint(dirname=str(tmp_path))
    net = Net(Module, max_epochs=2, optimizer=torch.optim.Adam, callbacks=[end], verbose=0).fit(x, y)
    assert all(name.startswith("train_end_") for name in assert_no_pickle(tmp_path))
    load = ours.LoadInitState(end)
    again = Net(Module, max_epochs=0, optimizer=torch.optim.Adam, callbacks=[end, load], verbose=0).fit(x, y)
    same_state(net.optimizer_.state_dict(), again.optimizer_.state_dict())
    with open(tmp_path / "by-hand", "wb") as f:
        net.save_params(f_optimizer=f)
    other = Net(Module, optimizer=torch.optim.Adam).initialize()
    with open(tmp_path / "by-hand", "rb") as f:
        other.load_params(f_optimizer=f)
    same_state(net.optimizer_.state_dict(), other.optimizer_.state_dict())


def test_files_of_skorch_itself_are_read(tmp_path):
    net = NeuralNetClassifier(Module).initialize()
    net.save_params(f_params=tmp_path / "theirs", use_safetensors=True)
    mine = Net(Module).initialize()
    mine.load_params(f_params=tmp_path / "theirs")
    assert all(torch.equal(a, b) for a, b in zip(net.module_.parameters(), mine.module_.parameters()))
    mine.save_params(f_params=tmp_path / "ours")
    net.load_params(f_params=tmp_path / "ours", use_safetensors=True)
    net.save_params(f_params=tmp_path / "pickle")
    with pytest.raises(SafetensorError):
        mine.load_params(f_params=tmp_path / "pickle")


def test_half_a_checkpoint_is_named(tmp_path):
    x, y = data()
    files_net(tmp_path, 3).fit(x, y)
    older = (tmp_path / "optimizer.safetensors").read_bytes()
    files_net(tmp_path, 2).fit(x, y)
    (tmp_path / "optimizer.safetensors").write_bytes(older)  # as after a kill between two files
    with pytest.raises(SafetensorError, match="not of one epoch.*optimizer.safetensors of epoch 3"):
        files_net(tmp_path, 2).fit(x, y)
    (tmp_path / "optimizer.safetensors").unlink()
    with pytest.raises(SkorchException, match="half a checkpoint: .*is there.*optimizer.safetensors"):
        files_net(tmp_path, 2).fit(x, y)


def test_a_failed_save_of_files_is_raised(tmp_path):
    x, y = data()
    with no_room(), pytest.raises(SafetensorError, match="file too large"):
        files_net(tmp_path, 1).fit(x, y)
    with pytest.raises(ValueError, match="f_pickle"):
        ours.Checkpoint(f_pickle="net.pkl")


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    make(pathlib.Path(sys.argv[1]), late=sys.argv[2] == "True").fit(*data())
