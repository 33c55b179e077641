# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pytest plug-in: skorch's nets and callbacks keep their files by safetensors_c.skorch, whatever a test asks for."""

import plug_common  # noqa: F401
import skorch.callbacks.training
import skorch.net
from safetensors_c import skorch as ours


def always(method):
    def call(self, *args, **kwargs):
        return method(self, *args, **{**kwargs, "use_safetensors": True})

    return call


for name, value in vars(ours.SafetensorsMixin).items():
    if callable(value):
        setattr(
            skorch.net.NeuralNet, name, always(value) if name in ("save_params", "load_params") else value
        )

NAMES = {
    "f_params": "params.pt",
    "f_optimizer": "optimizer.pt",
    "f_criterion": "criterion.pt",
}  # those of skorch


class Checkpoint(ours.Checkpoint):
    def __init__(self, monitor="valid_loss_best", *args, use_safetensors=False, **kwargs):
        given = dict(zip(NAMES, args))
        super().__init__(monitor, **{**NAMES, **given, **kwargs})


class TrainEndCheckpoint(ours.TrainEndCheckpoint):
    def __init__(self, *args, use_safetensors=False, **kwargs):
        given = dict(zip(NAMES, args))
        super().__init__(**{**NAMES, **given, **kwargs})


class LoadInitState(ours.LoadInitState):
    def __init__(self, checkpoint, use_safetensors=False):
        super().__init__(checkpoint, True)


for kind in (Checkpoint, TrainEndCheckpoint, LoadInitState):
    setattr(skorch.callbacks, kind.__name__, kind)
    setattr(skorch.callbacks.training, kind.__name__, kind)
