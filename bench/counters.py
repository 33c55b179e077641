# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a timed piece of Python work cost besides time; the twin of bench_start and bench_stop in bench.c."""

import resource
import time


def proc_number(path, key):
    """The first number behind `key` in a file of /proc; 0 where there is none."""
    try:
        with open(path) as f:
            return next((int(line.split()[1]) for line in f if line.startswith(key)), 0)
    except OSError:
        return 0


def _count():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "minor": usage.ru_minflt,
        "major": usage.ru_majflt,
        "cpu_us": (usage.ru_utime + usage.ru_stime) * 1e6,
        "device": proc_number("/proc/self/io", "read_bytes:"),
    }


class Clock:
    """Nanoseconds, page faults, processor time, bytes from the device, and the growth of VmHWM."""

    def start(self):
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")  # the peak begins anew
        except OSError:
            pass
        self.rss = proc_number("/proc/self/status", "VmRSS:") * 1024
        self.began = _count()
        self.at = time.perf_counter_ns()

    def stop(self):
        end = time.perf_counter_ns()
        now = _count()
        peak = proc_number("/proc/self/status", "VmHWM:") * 1024
        result = {key: now[key] - self.began[key] for key in now}
        result.update(ns=end - self.at, peak=max(0, peak - self.rss))
        return result
