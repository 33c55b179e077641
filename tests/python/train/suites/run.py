# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py PACKAGE SOURCE: the package's own tests of saving and resuming, as they are and with safetensors_c plugged in.

SOURCE is the unpacked source of the package, with its tests. Printed are how many passed each way and, by name, each that
passes alone only as it is, with the reason that differences.txt gives. Fails where one has no reason, or a reason no test.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
SUITES = {  # tests in SOURCE, -k, PYTHONPATH in SOURCE
    "skorch": (
        ["skorch/tests/callbacks/test_training.py", "skorch/tests/test_net.py"],
        "Checkpoint or LoadInitState or InitState or params or checkpoint or save or load",
        "",
    ),
    "accelerate": (["tests/test_state_checkpointing.py", "tests/test_accelerator.py"], "", "src"),
    "lightning": (
        [
            # without test_legacy_checkpoints.py, which wants pickles of old versions from a server
            "tests/tests_pytorch/checkpointing/test_checkpoint_callback_frequency.py",
            "tests/tests_pytorch/checkpointing/test_model_checkpoint.py",
            "tests/tests_pytorch/checkpointing/test_torch_saving.py",
            "tests/tests_pytorch/checkpointing/test_trainer_checkpoint.py",
            "tests/tests_pytorch/plugins/test_checkpoint_io_plugin.py",
            "tests/tests_pytorch/plugins/test_async_checkpoint.py",
            "tests/tests_pytorch/trainer/connectors/test_checkpoint_connector.py",
            "tests/tests_pytorch/callbacks/test_model_checkpoint_additional_cases.py",
            "tests/tests_pytorch/callbacks/test_model_checkpoint_edge_cases.py",
            "tests/tests_pytorch/callbacks/test_model_checkpoint_manual_opt.py",
            "tests/tests_pytorch/callbacks/test_model_checkpoint_step_interval_val_metric.py",
        ],
        "",
        "tests",
    ),
    "transformers": (
        ["tests/trainer/test_trainer_checkpointing.py", "tests/trainer/test_trainer_resume.py"],
        "",
        "",
    ),
}


def results(package, source, plugged):
    """{test: "passed", "skipped" or "failed: why"}"""
    tests, words, path = SUITES[package]
    tests = [t for t in tests if (source / t).exists()]
    if not tests:
        sys.exit(f"{source} has none of {package}'s tests")
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        command += [f"--junitxml={report}", f"--basetemp={scratch}/tmp", *tests]
        command += ["-k", words] if words else []
        command += ["-p", f"plug_{package}"] if plugged else []
        places = [str(HERE)] + ([str(source / path)] if path and package != "accelerate" else [])
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(places),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        env.update(PYTHONDONTWRITEBYTECODE="1", TOKENIZERS_PARALLELISM="false")
        log = HERE.parents[3] / "build" / f"suite-{package}-{'ours' if plugged else 'theirs'}.log"
        with open(log, "w", encoding="utf-8") as out:
            subprocess.run(command, cwd=source, env=env, stdout=out, stderr=subprocess.STDOUT, check=False)
        if not report.exists():
            sys.exit(f"{package}: no test ran; see {log}")
        found = {}
        for case in xml.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            skipped = case.find("skipped") is not None
            why = "" if bad is None else " ".join((bad.get("message") or "").split())[:160]
            found[name] = f"failed: {why}" if bad is not None else "skipped" if skipped else "passed"
        return found


def reasons(package):
    """[(begin of a test's name, reason)] of differences.txt."""
    out = []
    for line in (HERE / "differences.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            owner, name, reason = line.split(None, 2)
            if owner == package:
                out.append((name, reason))
    return out


def main():
    package, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    theirs, ours = results(package, source, False), results(package, source, True)
    passed = [t for t, r in theirs.items() if r == "passed"]
    kept = [t for t in passed if ours.get(t) == "passed"]
    skipped = sum(r == "skipped" for r in theirs.values())
    print(
        f"{package}: {len(passed)} of its tests pass as they are ({len(theirs) - len(passed) - skipped} fail,"
        f" {skipped} are skipped here), {len(kept)} of these with ours"
    )
    known = reasons(package)
    used: set[str] = set()
    bad = 0
    for test in passed:
        if ours.get(test) == "passed":
            continue
        reason = next((r for n, r in known if n in test), None)
        used.update(n for n, _ in known if n in test)
        bad += reason is None
        print(f"  {test}: {reason or 'NO REASON KNOWN: ' + ours.get(test, 'did not run')}")
    for name, _ in known:
        if name not in used:
            bad += 1
            print(f"  differences.txt names {name}, which no test needs")
    print(f"{len(kept)} passed, {bad} failed")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
