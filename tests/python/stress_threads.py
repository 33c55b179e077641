# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Eight threads on one handle, and on eight files: opens, tensors, slices, owned loads, saves, close.

Run under a data-race detector by sanitize.sh; by itself it checks the values. Needs NumPy alone.
stress_threads.py [ROUNDS]
"""

import os
import sys
import tempfile
import threading

import numpy
import safetensors_c
from safetensors_c import numpy as st

THREADS = 8
TENSORS = 40


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    faults = []
    with tempfile.TemporaryDirectory() as directory:
        tensors = {
            "t%d" % i: numpy.arange(i * 1000, i * 1000 + 64 * 257, dtype=numpy.int32).reshape(64, 257)
            for i in range(TENSORS)
        }
        paths = [os.path.join(directory, "%d.safetensors" % i) for i in range(THREADS)]
        for path in paths:
            st.save_file(tensors, path)
        shared = safetensors_c.safe_open(paths[0], "np")
        barrier = threading.Barrier(THREADS)

        def work(me: int) -> None:
            try:
                for n in range(rounds):
                    barrier.wait()
                    for i in range(me, TENSORS, 3):
                        name = "t%d" % i
                        if not numpy.array_equal(shared.get_tensor(name), tensors[name]):
                            raise ValueError("shared %s differs" % name)
                        part = shared.get_slice(name)[n % 60 : 64, 5:200]
                        if not numpy.array_equal(part, tensors[name][n % 60 : 64, 5:200]):
                            raise ValueError("slice of %s differs" % name)
                    for path in (paths[me], paths[(me + n) % THREADS]):
                        with safetensors_c.safe_open(path, "np", backend="pread") as f:
                            got = f.get_tensors()
                        if any(not numpy.array_equal(got[k], tensors[k]) for k in tensors):
                            raise ValueError("%s differs" % path)
                    st.save_file(
                        {"x": tensors["t1"], "y": tensors["t2"]}, os.path.join(directory, "out%d" % me)
                    )
                    if len(shared) != TENSORS or "t3" not in shared or sorted(shared.keys())[0] != "t0":
                        raise ValueError("the handle's names differ")
            except Exception as e:  # noqa: BLE001 - told in the main thread
                faults.append("thread %d: %r" % (me, e))
                barrier.abort()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        shared.close()
    for fault in faults:
        print(fault)
    print("%d threads, %d rounds, %d faults" % (THREADS, rounds, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
