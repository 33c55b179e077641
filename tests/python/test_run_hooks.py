# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Modules whose state_dict leaves out or adds what they like, and that do something of their own when they load."""

import pytest
import torch
from safetensors_c import Run
from torch import nn


class Drops(nn.Module):
    """Its state_dict leaves out the base; `other` adds a tensor there."""

    def __init__(self, other=None):
        super().__init__()
        self.base, self.added = nn.Linear(2, 2), nn.Linear(2, 2)
        self.other = other

    def state_dict(self, *args, **kwargs):
        whole = super().state_dict(*args, **kwargs)
        whole = {k: v for k, v in whole.items() if "base" not in k}
        return whole if self.other is None else {**whole, "other": self.other(self)}

    def load_state_dict(self, state, strict=True):
        if "other" in state:
            with torch.no_grad():
                self.base.weight.copy_(state["other"][:, :2])
                self.base.bias.copy_(state["other"][:, 2])
        return super().load_state_dict({k: v for k, v in state.items() if k != "other"}, strict=False)


def packed(module):
    return torch.cat([module.base.weight, module.base.bias[:, None]], dim=1).detach()


def adam(module):
    optimizer = torch.optim.Adam([(n, p) for n, p in module.named_parameters() if p.requires_grad])
    sum(p.sum() for p in module.parameters() if p.requires_grad).backward()
    optimizer.step()
    return {"model": module, "optimizer": optimizer}


@pytest.mark.parametrize("other", [None, lambda module: torch.ones(2)], ids=["nothing", "too little"])
def test_what_is_trained_is_kept_or_an_error(tmp_path, other):
    module = Drops(other)
    state = adam(module)
    with Run(tmp_path) as run:
        with pytest.raises(ValueError, match=r"optimizer: its parameter `base\.weight` is not in what"):
            run.save(1, **state)
        named = {"model": nn.Linear(2, 2), "head": module, "optimizer": state["optimizer"]}
        with pytest.raises(ValueError, match=r"`base\.weight` is not in what"):
            run.save(1, **named)
        run.save(2, model=module, base=module.base, optimizer=state["optimizer"])  # another module has it


def test_frozen_parameters_may_be_left_out(tmp_path):
    module, back = Drops(), Drops()
    for one in (module, back):
        one.base.requires_grad_(False)
    kept = back.base.weight.clone()
    with Run(tmp_path) as run:
        run.save(1, **adam(module))
        run.wait()
        run.resume(**adam(back))
    assert torch.equal(back.added.weight, module.added.weight) and torch.equal(back.base.weight, kept)


def test_what_is_kept_in_another_form(tmp_path):
    module, back = Drops(packed), Drops(packed)
    with Run(tmp_path) as run:
        run.save(1, **adam(module))
        run.wait()
        run.resume(**adam(back))
    assert torch.equal(back.base.weight, module.base.weight) and torch.equal(back.base.bias, module.base.bias)


class Derived(nn.Module):
    """Twice its weight is no buffer: whoever loads makes it anew."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.double()

    def double(self, *ignored):
        self.twice = self.weight.detach() * 2


class After(Derived):
    def __init__(self):
        super().__init__()
        self.register_load_state_dict_post_hook(Derived.double)


class Overrides(Derived):
    def load_state_dict(self, state, *args, **kwargs):
        super().load_state_dict(state, *args, **kwargs)
        self.double()


class From(Derived):
    def _load_from_state_dict(self, *args):
        super()._load_from_state_dict(*args)
        self.double()


@pytest.mark.parametrize("kind", [After, Overrides, From])
def test_what_is_derived_from_weights_when_they_load(tmp_path, kind):
    saved, back, teacher = kind(), kind(), kind()
    inner = [nn.Sequential(nn.BatchNorm1d(3), one) for one in (saved, teacher)]
    average = torch.optim.swa_utils.AveragedModel(back)
    with Run(tmp_path) as run:
        run.save(1, model=saved, ema=torch.optim.swa_utils.AveragedModel(saved), teacher=inner[0])
        run.wait()
        run.resume(model=torch.compile(back), ema=average, teacher=inner[1])
    assert torch.equal(back.twice, saved.twice) and torch.equal(average.module.twice, saved.twice)
    assert torch.equal(teacher.weight, saved.weight)
    assert kind is Overrides or torch.equal(teacher.twice, saved.twice)  # torch calls the outermost one alone


def test_hooks_run_where_something_is_left_out(tmp_path):
    saved, back = Drops(), Drops()
    for one in (saved, back):
        one.base.requires_grad_(False)
        one.derived = After()
    with Run(tmp_path) as run:
        run.save(1, model=saved)
        run.wait()
        run.resume(model=back)
    assert torch.equal(back.derived.twice, saved.derived.twice)


def test_plain_modules_are_not_loaded_twice(tmp_path, monkeypatch):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with Run(tmp_path) as run:
        run.save(1, model=model)
        run.wait()
        monkeypatch.setattr(model, "load_state_dict", lambda *args: pytest.fail("called"))
        run.resume(model=model)


def test_what_is_added_comes_as_a_tensor(tmp_path):
    """Also where it lies in a parameter's memory, which is stored once."""
    model = nn.Linear(2, 2)
    model.register_state_dict_post_hook(lambda me, d, prefix, _: d.update({prefix + "k": me.weight.detach()}))
    model.register_load_state_dict_pre_hook(lambda me, d, prefix, *_: setattr(me, "k", d.pop(prefix + "k")))
    with Run(tmp_path) as run:
        run.save(1, model=model)
        run.wait()
        run.resume(model=model)
    assert type(model.k) is torch.Tensor and torch.equal(model.k, model.weight)


def test_a_state_dict_of_its_own_form_is_refused_with_its_path(tmp_path):
    class Own(nn.Linear):
        def state_dict(self):
            return {}

    with Run(tmp_path) as run:
        with pytest.raises(TypeError, match=r"takes no keep_vars= \(at model\.a\)"):
            run.save(1, model={"a": Own(1, 1)})
        with pytest.raises(TypeError, match=r"\(at teacher\)"):
            run.save(1, teacher=Own(1, 1))
