#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""saver_job.py ARGUMENTS.json - a training for test_saver.py, one process of it: what a MindSpore user writes.

Two linear layers, the first cut by rows and the second by columns among `tp` ranks, trained by AdamWeightDecay on data that each
of the other ranks has a share of. Every step's loss goes to losses.RANK; the job kills itself where it is told to.
"""

import json
import os
import signal
import sys

os.environ.setdefault("GLOG_v", "3")

import mindspore as ms  # noqa: E402
import mindspore.dataset as ds  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import nn, ops  # noqa: E402
from mindspore.communication import get_group_size, get_rank, init  # noqa: E402
from safetensors_c.mindspore import Saver  # noqa: E402

FEATURES, HIDDEN, CLASSES, ROWS = 6, 8, 3, 48


def layout_of(ranks, tp):
    """Our own form: the parameters and AdamWeightDecay's moments of them, over ranks / tp times tp."""
    cut = {"up.weight": ["tp", None], "up.bias": ["tp"], "down.weight": [None, "tp"], "down.bias": [None]}
    tensors = [{"name": p + n, "cuts": c} for n, c in cut.items() for p in ("", "adam_m.", "adam_v.")]
    return {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"dp": ranks // tp, "tp": tp}},
        "tensors": tensors,
    }


class Net(nn.Cell):
    """What a rank has of it, and the loss over all rows of the batch."""

    def __init__(self, tp, index, reduce):
        super().__init__()
        rng = np.random.default_rng(5)
        up, down = rng.standard_normal((HIDDEN, FEATURES)), rng.standard_normal((CLASSES, HIDDEN))
        mine = slice(index * HIDDEN // tp, (index + 1) * HIDDEN // tp)

        def parameter(values, name):
            return ms.Parameter(ms.Tensor(np.ascontiguousarray(values), ms.float32), name=name)

        self.up = parameter(up[mine], "up.weight")
        self.up_bias = parameter(np.zeros(HIDDEN)[mine], "up.bias")
        self.down = parameter(down[:, mine], "down.weight")
        self.down_bias = parameter(np.zeros(CLASSES), "down.bias")
        self.reduce = reduce
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, x, y):
        hidden = ops.tanh(ops.matmul(x, self.up.T) + self.up_bias)
        out = ops.matmul(hidden, self.down.T)
        if self.reduce is not None:
            out = self.reduce(out)
        return self.loss(out + self.down_bias, y)


def data(batch, rank, ranks):
    rng = np.random.default_rng(0)
    x, y = (
        rng.standard_normal((ROWS, FEATURES)).astype(np.float32),
        rng.integers(0, CLASSES, ROWS).astype(np.int32),
    )
    return ds.NumpySlicesDataset((x, y), shuffle=False, num_shards=ranks, shard_id=rank).batch(batch)


class Told(ms.train.Callback):
    """Losses of a Model.train."""

    def __init__(self, job):
        super().__init__()
        self.job = job

    def on_train_step_end(self, run_context):
        p = run_context.original_args()
        self.job.tell(
            p.cur_epoch_num, (p.cur_step_num - 1) % p.batch_num + 1 + self.job.skipped, p.net_outputs
        )


class Job:
    def __init__(self, told):
        self.told = told
        self.rank, self.ranks = 0, 1
        self.skipped = 0  # batches of the epoch that training goes on in
        if told["ranks"] > 1:
            init()
            self.rank, self.ranks = get_rank(), get_group_size()
        self.losses = open(f"losses.{self.rank}", "a", buffering=1)  # noqa: SIM115

    def tell(self, epoch, step, loss):
        self.losses.write(f"{epoch}_{step} {float(loss.asnumpy()).hex()}\n")
        if [epoch, step] == self.told.get("kill") and self.rank == self.told.get("victim", 0):
            os.kill(os.getpid(), signal.SIGKILL)

    def saver(self, **more):
        return Saver(self.told["directory"], "job", **{**self.told.get("saver", {}), **more})

    def resume(self, saver, network):
        point = saver.resume(network)
        if point.step == 0 and "source" in self.told:
            point = saver.resume(network, source=self.told["source"])
        with open(f"resumed.{self.rank}", "a") as f:
            f.write(f"{point.epoch}_{point.step} {json.dumps(point.extra)}\n")
        with open(f"state.{self.rank}", "w") as f:
            json.dump({p.name: p.asnumpy().tolist() for p in network}, f)
        return point

    def by_model(self):
        """Data parallel by Model.train."""
        if self.ranks > 1:
            ms.set_auto_parallel_context(
                parallel_mode="data_parallel", gradients_mean=True, device_num=self.ranks
            )
        net = Net(1, 0, None)
        optimizer = nn.AdamWeightDecay(net.trainable_params(), 0.05)
        model = ms.train.Model(nn.TrainOneStepCell(net, optimizer))
        saver = self.saver()
        point = self.resume(saver, list(optimizer.get_parameters()))
        if point.step > 0:
            self.skipped = point.step
            rest = data(4, self.rank, self.ranks)
            if point.step < rest.get_dataset_size():
                self.train(model, saver, rest.skip(point.step), point.epoch - 1, point.epoch)
            self.skipped = 0
        self.train(model, saver, data(4, self.rank, self.ranks), point.epoch, self.told["epochs"])

    def train(self, model, saver, rows, first, last):
        if first < last:
            model.train(
                last, rows, callbacks=[Told(self), saver], initial_epoch=first, dataset_sink_mode=False
            )

    def by_hand(self):
        """Tensor parallel among all ranks, in a loop of one's own; steps within an epoch are gone on from."""
        tp = self.told["tp"]
        reduce = ops.AllReduce() if tp > 1 else None
        net = Net(tp, self.rank % tp, reduce)
        optimizer = nn.AdamWeightDecay(net.trainable_params(), 0.05)
        step_of = ms.value_and_grad(lambda x, y: net(x, y), None, optimizer.parameters)
        saver = self.saver(layout=layout_of(self.ranks, tp) if self.ranks > 1 else None)
        point = self.resume(saver, list(optimizer.get_parameters()))
        with saver:
            for epoch in range(max(point.epoch, 1), self.told["epochs"] + 1):
                for i, (x, y) in enumerate(data(8, 0, 1)):
                    if (epoch, i + 1) <= (point.epoch, point.step):
                        continue
                    loss, gradients = step_of(x, y)
                    optimizer(gradients)
                    saver.save(list(optimizer.get_parameters()), epoch, i + 1)
                    self.tell(epoch, i + 1, loss)


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        given = json.load(f)
    getattr(Job(given), given["how"])()
