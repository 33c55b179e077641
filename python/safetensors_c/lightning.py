# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lightning's checkpoints as safetensors: a CheckpointIO that writes no pickle and runs no code.

    trainer = Trainer(plugins=[TreeCheckpointIO()], ...)
    trainer = Trainer(plugins=[AsyncCheckpointIO(TreeCheckpointIO())], ...)  # Lightning's own: writes behind
    trainer.fit(model, ckpt_path="last")

A checkpoint is one file in the form of docs/tree.md: weights, optimizers, schedulers, loops, callbacks, hyper-parameters. It
is whole or not there: a kill leaves what was there before. docs/trainers.md says what is refused.

Of many processes (DDP) the first one writes the checkpoint and all read it. Lightning keeps no random states; with
`callbacks=[RandomStates()]` it keeps those of every process.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from argparse import Namespace
from collections import OrderedDict

import torch
from lightning.fabric.plugins.io import CheckpointIO
from lightning.fabric.utilities.data import AttributeDict
from lightning.pytorch.callbacks import Callback
from torch import distributed

from ._run_state import random_states, set_random_states
from .tree import load_tree, save_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["RandomStates", "TreeCheckpointIO"]


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


class RandomStates(Callback):
    """Keeps the random states of python, NumPy and torch in the checkpoint, of every process, and puts them back as training
    goes on: exact for checkpoints at the end of an epoch, where Lightning's own position is.

    Another number of processes leaves them as they are: a warning says so. Costs an allgather of 20 kB at each save, which all
    processes make together, as Lightning does.
    """

    def __init__(self) -> None:
        self._found: Any = None

    def state_dict(self) -> dict[str, Any]:
        mine = torch.frombuffer(bytearray(json.dumps(_listed(random_states())).encode()), dtype=torch.uint8)
        return {"states": _of_all(mine)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._found = state["states"]

    def on_fit_start(self, trainer: Any, module: Any) -> None:  # before loaders draw
        found, self._found = self._found, None
        if found is None:
            return
        if len(found) != trainer.world_size:
            warnings.warn(
                f"the checkpoint was saved by {len(found)} processes, and {trainer.world_size} resume it; not put back, as"
                " each process had its own: random states",
                stacklevel=2,
            )
            return
        states = json.loads(bytes(found[trainer.global_rank].tolist()))
        version, numbers, gauss = states["python"]
        states["python"] = (version, tuple(numbers), gauss)
        for name in states.keys() - {"python", "numpy"}:
            states[name] = torch.tensor(states[name], dtype=torch.uint8)
        set_random_states(states)


def _listed(x: Any) -> Any:
    """Random states as JSON has them."""
    if isinstance(x, dict):
        return {k: _listed(v) for k, v in x.items()}
    return x.tolist() if hasattr(x, "tolist") else x


def _of_all(mine: torch.Tensor) -> list[torch.Tensor]:
    """What each process gives, by rank."""
    if not distributed.is_initialized():
        return [mine]
    backend = distributed.get_backend_config()
    device = torch.device("cpu" if "cpu:" in backend else "cuda")
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(distributed.get_world_size())]
    distributed.all_gather(sizes, torch.tensor([len(mine)], device=device))
    most = int(max(sizes))
    whole = [torch.zeros(most, dtype=torch.uint8, device=device) for _ in sizes]
    distributed.all_gather(whole, torch.nn.functional.pad(mine, (0, most - len(mine))).to(device))
    return [part[: int(size)].cpu().clone() for part, size in zip(whole, sizes)]
