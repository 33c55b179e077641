# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One Python package as a contender: `peers.py KIT`, a command a line in, an answer (JSON) a line out.

Everything is imported beforehand; then each command runs in a process of its own, forked from this one, so
that its memory and page faults are its alone and nobody profits from an earlier turn. The first line out is
{"ready": version} or {"absent": reason}. A command that fails answers {"error": reason}.

What is timed is what a user of the package would write for the same result. Commands that end with "verify"
compare every byte with the file, outside the clock. Kits: safetensors, safetensors_c (the same code with
another import), torch, numpy, fastsafetensors, runai, gguf, tensorizer, instanttensor.
"""

import concurrent.futures
import importlib
import importlib.metadata
import inspect
import json
import mmap
import os
import struct
import sys
import time

import numpy as np
from counters import Clock

COMMANDS = {}


def command(f):
    COMMANDS[f.__name__] = f
    return f


# ------------------------------------------------------------------ the bytes, by the format's rules alone


def layout(path):
    """{name: (offset, nbytes)} and a memmap of the file."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
    header.pop("__metadata__", None)
    places = {
        n: (8 + size + t["data_offsets"][0], t["data_offsets"][1] - t["data_offsets"][0])
        for n, t in header.items()
    }
    return places, np.memmap(path, np.uint8, "r")


def as_bytes(tensor):
    if isinstance(tensor, np.ndarray):
        return tensor.reshape(-1).view(np.uint8)
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy()


def verify(tensors, path):
    places, data = layout(path)
    if set(tensors) != set(places):
        raise ValueError("other names than the file has")
    for name, (at, size) in places.items():
        if not np.array_equal(as_bytes(tensors[name]), data[at : at + size]):
            raise ValueError(f"{name}: other bytes than the file has")


def timed(work, path=None, check=()):
    """Runs work() under the clock; its result is kept until the clock stands still."""
    clock = Clock()
    clock.start()
    result = work()
    answer = clock.stop()
    if "verify" in check and path is not None:
        verify(result, path)
    return answer


# ------------------------------------------------------------------ safetensors and safetensors_c


class Safetensors:
    """The reference's surface, by whichever package."""

    def __init__(self, name):
        self.name = name
        self.top = importlib.import_module(name)
        self.numpy = importlib.import_module(name + ".numpy")
        self.torch = importlib.import_module(name + ".torch")
        self.version = importlib.metadata.version(name.replace("_", "-"))

    def of(self, framework):
        return self.torch if framework == "torch" else self.numpy

    def pread(self, path, framework):
        load_file = self.of(framework).load_file
        if "backend" in inspect.signature(load_file).parameters:
            return load_file(path, backend="pread")
        with self.top.safe_open(path, framework="pt" if framework == "torch" else "np", backend="pread") as f:
            return {name: f.get_tensor(name) for name in f.keys()}

    def owned(self, path, framework, way):
        """All bytes in memory that belongs to the caller, by one of the ways there are."""
        if way == "pread":
            return self.pread(path, framework)
        if way == "bytes":
            with open(path, "rb") as f:
                return self.of(framework).load(f.read())
        tensors = self.of(framework).load_file(path)
        if way == "clone":
            for name, tensor in tensors.items():
                tensors[name] = tensor.clone() if framework == "torch" else tensor.copy()
        return tensors

    def lazy(self, path, framework):
        return self.of(framework).load_file(path)

    def stream(self, path):
        """Tensor after tensor, none kept."""
        with self.top.safe_open(path, framework="np", backend="pread") as f:
            for name in f.keys():
                f.get_tensor(name)


# ------------------------------------------------------------------ the others


class Torch:
    def __init__(self, _name):
        import torch

        self.version = torch.__version__
        self.torch = torch

    def owned(self, path, _framework, way):
        return self.torch.load(path, mmap=False, weights_only=True)

    def lazy(self, path, _framework):
        return self.torch.load(path, mmap=True, weights_only=True)


class Numpy:
    """No format at all: the places are known beforehand."""

    def __init__(self, _name):
        self.version = np.__version__

    def prepare(self, path):
        self.places = layout(path)[0]

    def owned(self, path, _framework, way):
        data = np.fromfile(path, np.uint8)
        return {n: data[at : at + size] for n, (at, size) in self.places.items()}

    def lazy(self, path, _framework):
        data = np.memmap(path, np.uint8, "r")
        return {n: data[at : at + size] for n, (at, size) in self.places.items()}


class Fastsafetensors:
    def __init__(self, _name):
        import fastsafetensors

        self.version = importlib.metadata.version("fastsafetensors")
        self.module = fastsafetensors
        self.kept = []

    def owned(self, path, _framework, way):
        loader = self.module.SafeTensorsFileLoader(
            self.module.SingleGroup(), "cpu", nogds=True, set_numa=False, disable_cache=False
        )
        loader.add_filenames({0: [path]})
        buffer = loader.copy_files_to_device()
        self.kept.append((loader, buffer))  # the tensors die with it
        return {name: buffer.get_tensor(name) for name in buffer.key_to_rank_lidx}


class Runai:
    def __init__(self, _name):
        os.environ.setdefault("RUNAI_STREAMER_LOG_LEVEL", "ERROR")
        import runai_model_streamer

        self.version = importlib.metadata.version("runai-model-streamer")
        self.module = runai_model_streamer

    def owned(self, path, _framework, way):
        with self.module.SafetensorsStreamer() as streamer:
            streamer.stream_file(path)
            return {name: tensor.clone() for name, tensor in streamer.get_tensors()}

    def stream(self, path):
        with self.module.SafetensorsStreamer() as streamer:
            streamer.stream_file(path)
            for _name, _tensor in streamer.get_tensors():
                pass


class Gguf:
    def __init__(self, _name):
        import gguf

        self.version = importlib.metadata.version("gguf")
        self.module = gguf

    def owned(self, path, _framework, way):
        return {t.name: np.array(t.data) for t in self.module.GGUFReader(path).tensors}

    def lazy(self, path, _framework):
        return {t.name: t.data for t in self.module.GGUFReader(path).tensors}


class Tensorizer:
    def __init__(self, _name):
        import tensorizer

        self.version = importlib.metadata.version("tensorizer")
        self.module = tensorizer
        self.kept = []

    def owned(self, path, _framework, way):
        reader = self.module.TensorDeserializer(path, device="cpu")
        self.kept.append(reader)
        return {name: reader[name] for name in reader}


class Instanttensor:
    def __init__(self, _name):
        import instanttensor

        self.version = importlib.metadata.version("instanttensor")
        self.module = instanttensor

    def owned(self, path, _framework, way):
        with self.module.safe_open(path, framework="pt", device="cpu") as f:
            return dict(f.tensors())


KITS = {
    "safetensors": Safetensors,
    "safetensors_c": Safetensors,
    "torch": Torch,
    "numpy": Numpy,
    "fastsafetensors": Fastsafetensors,
    "runai": Runai,
    "gguf": Gguf,
    "tensorizer": Tensorizer,
    "instanttensor": Instanttensor,
}

# ------------------------------------------------------------------ commands: loads


@command
def owned(kit, path, framework, way, *check):
    """owned PATH torch|numpy mmap|clone|pread|bytes [verify [SAFETENSORS]]: every byte in memory of one's own."""
    if hasattr(kit, "prepare"):
        kit.prepare(path)
    return timed(lambda: kit.owned(path, framework, way), check[1] if len(check) > 1 else path, check)


@command
def lazy(kit, path, framework, n):
    """lazy PATH torch|numpy N: a tensor object for every tensor; no byte is touched. A mean of N."""
    if hasattr(kit, "prepare"):
        kit.prepare(path)
    kit.lazy(path, framework)
    return mean(lambda: kit.lazy(path, framework), int(n))


def mean(work, n):
    clock = Clock()
    clock.start()
    for _ in range(n):
        work()
    answer = clock.stop()
    answer["ns"] /= n
    return answer


@command
def total(kit, path, framework):
    """total PATH torch|numpy: lazily loaded, then every byte summed."""
    if hasattr(kit, "prepare"):
        kit.prepare(path)

    def work():
        return sum(int(words(as_bytes(t)).sum(dtype=np.uint64)) for t in kit.lazy(path, framework).values())

    return timed(work)


def words(data):
    return data[: len(data) // 8 * 8].view(np.uint64) if data.ctypes.data % 8 == 0 else data


@command
def total_base(kit, path):
    """The same sum over memory that has the bytes already."""
    places, mapped = layout(path)
    data = huge(len(mapped))
    data[:] = mapped
    return timed(
        lambda: sum(int(words(data[at : at + size]).sum(dtype=np.uint64)) for at, size in places.values())
    )


def huge(size):
    """Touched memory in huge pages."""
    area = mmap.mmap(-1, size + (2 << 20))
    area.madvise(getattr(mmap, "MADV_HUGEPAGE", 14))
    data = np.frombuffer(area, np.uint8)[:size]
    data[::4096] = 1
    return data


@command
def stream(kit, path):
    return timed(lambda: kit.stream(path))


@command
def dlpack_loop(kit, count, framework):
    """dlpack_loop COUNT torch|numpy: a dict out of that many ready capsules; the least a binding can do."""
    import torch

    names = [f"layers.{i // 256}.experts.{i % 256}.w" for i in range(int(count))]
    storage = torch.zeros(int(count) * 64, dtype=torch.bfloat16 if framework == "torch" else torch.float16)
    parts = [storage[64 * i : 64 * i + 64].view(8, 8) for i in range(int(count))]
    if framework == "torch":
        capsules = [torch.utils.dlpack.to_dlpack(t) for t in parts]
        take = torch.utils.dlpack.from_dlpack
        return timed(lambda: {name: take(c) for name, c in zip(names, capsules)})
    arrays = [t.numpy() for t in parts]
    return timed(lambda: {name: np.from_dlpack(a) for name, a in zip(names, arrays)})


@command
def one_of_many(kit, path, name, framework, n):
    """one_of_many PATH NAME torch|numpy N: open, one tensor, all of it summed, close: some packages copy
    here and some map."""
    short = "pt" if framework == "torch" else "np"

    def work():
        with kit.top.safe_open(path, framework=short) as f:
            return int(words(as_bytes(f.get_tensor(name))).sum())

    work()
    return mean(work, int(n))


@command
def many_files(kit, framework, way, threads, *paths):
    """many_files torch|numpy WAY THREADS PATH...: all of them loaded, by that many threads of this process."""
    clock = Clock()
    with concurrent.futures.ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(time.sleep, [0.01] * int(threads)))  # the threads are there before the clock runs
        clock.start()
        if int(threads) == 1:
            kept = [kit.owned(path, framework, way) for path in paths]
        else:
            kept = list(pool.map(lambda path: kit.owned(path, framework, way), paths))
        answer = clock.stop()
    assert all(kept)
    return answer


@command
def load_into(kit, path):
    """load_into PATH: into torch tensors that exist and were touched; ours alone has it."""
    tensors = {n: t.clone() for n, t in kit.torch.load_file(path).items()}
    return timed(lambda: (kit.torch.load_into(tensors, path), tensors)[1], path, ("verify",))


@command
def verified(kit, path, check):
    """verified PATH yes|no: into owned memory, recorded digests compared or not; ours alone has it."""
    return timed(lambda: kit.torch.load_file(path, backend="pread", verify=check == "yes"))


# ------------------------------------------------------------------ commands: saves


def model(mib):
    import torch

    size = (int(mib) << 20) // 64
    data = torch.frombuffer(bytearray(os.urandom(8 << 20)), dtype=torch.float16)
    parts = data.repeat(((size * 64) >> 23) + 1)[: size * 32].view(64, -1, 1024)
    return {f"model.layers.{i:02d}.weight": parts[i].clone() for i in range(64)}


def settle(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    os.unlink(path)


@command
def save_file(kit, path, mib, framework):
    """save_file PATH MIB torch|numpy: 64 tensors, removed again outside the clock."""
    tensors = model(mib)
    if framework == "numpy":
        tensors = {n: t.numpy() for n, t in tensors.items()}
    if isinstance(kit, Torch):
        answer = timed(lambda: kit.torch.save(tensors, path))
    elif isinstance(kit, Numpy):
        answer = timed(lambda: [np.save(f, t) for f in [open(path, "wb")] for t in tensors.values()])
    else:
        answer = timed(lambda: kit.of(framework).save_file(tensors, path))
    settle(path)
    return answer


@command
def save_bytes(kit, mib):
    """save_bytes MIB: to a bytes object; what counts is the peak."""
    tensors = model(mib)
    return timed(lambda: kit.torch.save(tensors))


@command
def convert(kit, source, target, dtype):
    """convert SOURCE TARGET bfloat16|float32|...: load, cast, save, as one writes it with torch."""
    import torch

    wanted = getattr(torch, dtype)

    def work():
        kit.torch.save_file({n: t.to(wanted) for n, t in kit.torch.load_file(source).items()}, target)

    answer = timed(work)
    settle(target)
    return answer


@command
def reshard(kit, target, parts, *sources):
    """reshard TARGET PARTS SOURCE...: everything loaded, then saved in so many files."""
    targets = [f"{target}.{i}" for i in range(int(parts))]

    def work():
        tensors = {}
        for source in sources:
            tensors.update(kit.torch.load_file(source))
        names = sorted(tensors)
        for i, path in enumerate(targets):
            chosen = names[len(names) * i // len(targets) : len(names) * (i + 1) // len(targets)]
            kit.torch.save_file({n: tensors[n] for n in chosen}, path)

    answer = timed(work)
    for path in targets:
        settle(path)
    return answer


@command
def make(kit, source, target):
    """make SOURCE TARGET: the same tensors in this kit's own format; kept."""
    from safetensors.torch import load_file

    tensors = load_file(source)
    part = target + ".part"
    if isinstance(kit, Torch):
        kit.torch.save(tensors, part)
    elif isinstance(kit, Gguf):
        writer = kit.module.GGUFWriter(part, "bench")
        for name, tensor in tensors.items():
            writer.add_tensor(name, tensor.numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    else:
        writer = kit.module.TensorSerializer(part)
        writer.write_state_dict(tensors)
        writer.close()
    fd = os.open(part, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    os.rename(part, target)
    return {"ns": 0}


# ------------------------------------------------------------------ the server


def run(kit, words_, out):
    """One command in a process of its own; its answer goes to `out`."""
    pid = os.fork()
    if pid == 0:
        try:
            answer = COMMANDS[words_[0]](kit, *words_[1:])
        except BaseException as error:  # whatever it is belongs into the answer
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        os.write(out, (json.dumps(answer) + "\n").encode())
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        os.write(out, (json.dumps({"error": f"the process ended with status {status}"}) + "\n").encode())


def main(name):
    out = os.dup(1)  # what packages print must not get between the answers
    os.dup2(2, 1)
    try:
        kit = KITS[name](name)
    except Exception as error:
        os.write(out, (json.dumps({"absent": f"{type(error).__name__}: {error}"[:300]}) + "\n").encode())
        return
    os.write(out, (json.dumps({"ready": kit.version}) + "\n").encode())
    for line in sys.stdin:
        run(kit, line.rstrip("\n").split("\t"), out)


if __name__ == "__main__":
    main(sys.argv[1])
