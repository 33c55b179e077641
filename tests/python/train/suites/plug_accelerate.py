# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pytest plug-in: what Accelerator.save_state writes and load_state reads is a run in their directory."""

import os

import accelerate.accelerator as theirs
from safetensors_c import Run
from safetensors_c import accelerate as ours

at_work = []


def stacked(method):
    def call(self, *args, **kwargs):
        at_work.append(self)
        try:
            return method(self, *args, **kwargs)
        finally:
            at_work.pop()

    return call


def save(output_dir, *args, **kwargs):
    with Run(output_dir) as run:
        run.save(1, **ours._objects(run, at_work[-1], None), replace=True)
    return output_dir


def load(input_dir, *args, **kwargs):
    with Run(input_dir, read_only=True) as run:
        if run.resume(**ours._objects(run, at_work[-1], None)).step != 1:
            raise FileNotFoundError(input_dir)
    return {}


def save_custom(one, path, index=0, *args, **kwargs):
    """The objects are in the run; load_state counts these files."""
    open(os.path.join(path, f"custom_checkpoint_{index}.pkl"), "wb").close()


theirs.Accelerator.save_state = stacked(theirs.Accelerator.save_state)
theirs.Accelerator.load_state = stacked(theirs.Accelerator.load_state)
theirs.save_accelerator_state = save
theirs.load_accelerator_state = load
theirs.save_custom_state = save_custom
theirs.load_custom_state = lambda *args, **kwargs: None
