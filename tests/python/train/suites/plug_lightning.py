# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pytest plug-in: Lightning's default CheckpointIO is TreeCheckpointIO."""

import lightning.fabric.strategies.strategy
import lightning.pytorch.strategies.strategy
import plug_common  # noqa: F401
from safetensors_c.lightning import TreeCheckpointIO

for module in (lightning.pytorch.strategies.strategy, lightning.fabric.strategies.strategy):
    module.TorchCheckpointIO = TreeCheckpointIO
