# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lightning's checkpoints as safetensors: a CheckpointIO that writes no pickle and runs no code.

    trainer = Trainer(plugins=[TreeCheckpointIO()], ...)
    trainer = Trainer(plugins=[AsyncCheckpointIO(TreeCheckpointIO())], ...)  # Lightning's own: writes behind
    trainer.fit(model, ckpt_path="last")

A checkpoint is one file in the form of docs/tree.md: weights, optimizers, schedulers, loops, callbacks, hyper-parameters. It
is whole or not there: a kill leaves what was there before. docs/trainers.md says what is refused.
"""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from collections import OrderedDict

from lightning.fabric.plugins.io import CheckpointIO
from lightning.fabric.utilities.data import AttributeDict

from .tree import load_tree, save_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TreeCheckpointIO"]


def _plain(x: Any) -> Any:
    """Containers of Lightning as those of Python, which it takes back as well."""
    if isinstance(x, Namespace):
        x = vars(x)
    if isinstance(x, dict):
        kind = OrderedDict if isinstance(x, OrderedDict) else dict
        same = type(x) in (dict, OrderedDict, AttributeDict) or type(x).__module__.startswith("lightning")
        return kind((k, _plain(v)) for k, v in x.items()) if same else x
    if type(x) in (list, tuple):
        return type(x)(_plain(v) for v in x)
    if isinstance(x, os.PathLike):
        return os.fspath(x)
    return str(x) if isinstance(x, str) and type(x) is not str else x


class TreeCheckpointIO(CheckpointIO):
    """Keeps Lightning's checkpoints as trees in safetensors.

    digests: "crc32c" (default), "sha256" or None: recorded, and compared when a checkpoint is loaded.
    Paths are those of a local file system. `LightningModule.load_from_checkpoint` reads by torch.load alone: use
    `model.load_state_dict(safetensors_c.tree.load_tree(path)["state_dict"])`.
    """

    def __init__(self, *, digests: str | None = "crc32c") -> None:
        self.digests = digests

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Raises TypeError with the path of what a tree cannot hold: give its numbers, or a state_dict."""
        if storage_options is not None:
            raise TypeError("TreeCheckpointIO takes no storage_options")
        path = os.fspath(path)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        save_tree(_plain(checkpoint), path, digests=self.digests)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The dict that was saved, on the CPU, or on the device that map_location names; SafetensorError if it is damaged."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"Checkpoint file not found: {path}")
        device = map_location if isinstance(map_location, str) or hasattr(map_location, "type") else "cpu"
        return load_tree(path, device=str(device), verify=self.digests is not None)

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint, also one that is a directory of another writer."""
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
