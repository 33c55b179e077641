# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The ways to switch: install(), python -m safetensors_c, SAFETENSORS_C=1 in children, the alias distribution.

Every case runs in a process of its own. With the package `safetensors` of PyPI installed beside ours the
tests of "after" have something to replace; its extension module must never be loaded in those of "before".
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
HAVE_REFERENCE = importlib.util.find_spec("safetensors") is not None
HAVE_TORCH = importlib.util.find_spec("torch") is not None
HAVE_PTH = any(os.path.exists(os.path.join(p, "safetensors_c.pth")) for p in sys.path)

need_reference = pytest.mark.skipif(not HAVE_REFERENCE, reason="the package safetensors is not installed")
need_torch = pytest.mark.skipif(not HAVE_TORCH, reason="torch is not installed")
need_pth = pytest.mark.skipif(not HAVE_PTH, reason="safetensors_c is not installed as a distribution")

OURS = """
import sys
def check_ours():
    import safetensors, safetensors_c, safetensors.numpy
    from safetensors import safe_open, SafetensorError
    from safetensors._safetensors_rust import serialize, _safe_open_handle
    from safetensors.numpy import load_file
    import safetensors_c.numpy, safetensors_c._core
    assert safe_open is safetensors_c.safe_open, safe_open
    assert SafetensorError is safetensors_c.SafetensorError
    assert serialize is safetensors_c.serialize
    assert load_file is safetensors_c.numpy.load_file
    assert safetensors.numpy.load_file is load_file
    assert safetensors.__version__.startswith("0.8.0+c"), safetensors.__version__
def check_never_loaded():
    rust = sys.modules.get("safetensors._safetensors_rust")
    assert rust is None or rust is sys.modules["safetensors_c._core"]
    try:
        maps = open("/proc/self/maps").read()
    except OSError:
        return
    assert "_safetensors_rust" not in maps
"""


def run(code, *arguments, env=None, cwd=None, python=(), ok=True):
    environment = {k: v for k, v in os.environ.items() if k != "SAFETENSORS_C"}
    environment.update(env or {})
    command = [sys.executable, *python, "-c", OURS + textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env=environment, cwd=cwd, text=True, capture_output=True, timeout=300)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout


def script(directory, code, name="script.py"):
    path = directory / name
    path.write_text(OURS + textwrap.dedent(code))
    return str(path)


def launch(arguments, env=None, cwd=None):
    environment = {k: v for k, v in os.environ.items() if k != "SAFETENSORS_C"}
    environment.update(env or {})
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cwd, text=True, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---------------------------------------------------------------- install()


def test_install_before_import():
    run(
        """
        import safetensors_c
        assert not safetensors_c.installed() or True
        safetensors_c.install(); safetensors_c.install()
        assert safetensors_c.installed()
        check_ours(); check_never_loaded()
        import importlib.util, importlib.metadata
        assert importlib.util.find_spec("safetensors") is not None
        assert importlib.util.find_spec("safetensors.numpy") is not None
        version = importlib.metadata.version("safetensors")
        assert version.startswith("0.8.0+c")
        assert importlib.metadata.metadata("safetensors")["Name"] == "safetensors"
        assert importlib.metadata.distribution("safetensors").version == version
        assert importlib.metadata.requires("safetensors") == ["safetensors-c"]
        import safetensors
        assert safetensors.save_tree is safetensors_c.save_tree
        try:
            safetensors.nonsense
        except AttributeError:
            pass
        else:
            raise AssertionError
        # our own modules keep their names
        import safetensors_c.numpy, pickle
        assert safetensors_c.numpy.__spec__.name == "safetensors_c.numpy"
        assert pickle.loads(pickle.dumps(safetensors_c.numpy.save)) is safetensors.numpy.save
        """
    )


def test_version_checks_of_packaging():
    packaging = pytest.importorskip("packaging.specifiers")
    import safetensors_c._switch as switch

    for wanted in (">=0.4.3", ">=0.8.0", "==0.8.0", "!=0.7.0"):
        assert packaging.SpecifierSet(wanted).contains(switch.version()), wanted


@need_reference
def test_install_after_import_and_back():
    run(
        """
        import safetensors, safetensors.numpy
        from safetensors import safe_open as taken
        from safetensors.numpy import save_file
        theirs = safetensors.safe_open
        rust = sys.modules["safetensors._safetensors_rust"]
        import types
        other = types.ModuleType("other"); sys.modules["other"] = other
        other.opener = theirs; other.saver = save_file; other.length = len
        import safetensors_c
        assert theirs is not safetensors_c.safe_open
        safetensors_c.install()
        check_ours()
        assert safetensors.safe_open is safetensors_c.safe_open
        assert other.opener is safetensors_c.safe_open
        assert other.saver is safetensors_c.numpy.save_file
        assert other.length is len
        assert taken is safetensors_c.safe_open  # __main__ is a module, too
        import importlib.metadata
        assert importlib.metadata.version("safetensors").startswith("0.8.0+c")
        safetensors_c.uninstall()
        assert not safetensors_c.installed()
        assert safetensors.safe_open is theirs and other.opener is theirs and taken is theirs
        assert sys.modules["safetensors._safetensors_rust"] is rust
        assert "+c" not in importlib.metadata.version("safetensors")
        """
    )


@need_reference
def test_uninstall_gives_the_reference_back():
    run(
        """
        import safetensors_c
        safetensors_c.install(); check_ours(); safetensors_c.uninstall()
        import safetensors
        assert safetensors.safe_open is not safetensors_c.safe_open
        from safetensors._safetensors_rust import safe_open
        assert safe_open is safetensors.safe_open
        """
    )


# ---------------------------------------------------------------- python -m safetensors_c


def test_runs_a_script(tmp_path):
    path = script(
        tmp_path,
        """
        check_ours(); check_never_loaded()
        import neighbour
        assert __name__ == "__main__" and sys.argv[1:] == ["a", "--b"], sys.argv
        print("fine", sys.argv[0])
        """,
    )
    (tmp_path / "neighbour.py").write_text("")
    assert launch(["-m", "safetensors_c", path, "a", "--b"]).split() == ["fine", path]


def test_runs_a_module_and_code(tmp_path):
    script(tmp_path, "check_ours(); print(__name__, sys.argv[1:])", "mod.py")
    assert launch(["-m", "safetensors_c", "-m", "mod", "x"], cwd=tmp_path) == "__main__ ['x']\n"
    code = OURS + "check_ours(); check_never_loaded(); print(sys.argv)"
    assert launch(["-m", "safetensors_c", "-c", code, "y"]) == "['-c', 'y']\n"
    assert "safetensors_c" in launch(["-m", "safetensors_c", "--version"])
    assert "usage" in launch(["-m", "safetensors_c", "--help"])
    for bad in ([], ["-m"], ["--nope"]):
        done = subprocess.run([sys.executable, "-m", "safetensors_c", *bad], capture_output=True)
        assert done.returncode == 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is Python 3.11's")
def test_safe_paths_stay_safe(tmp_path):
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "s.py").write_text("import colorsys, sys; assert len(sys.path) > 1\nimport neighbour")
    for option in ("-P", "-I"):
        for how in (["s.py"], ["-c", "import colorsys, neighbour"], ["-m", "neighbour"]):
            run = subprocess.run(
                [sys.executable, option, "-m", "safetensors_c", *how],
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert run.returncode == 1 and "No module named" in run.stderr and "neighbour" in run.stderr, (
                option,
                how,
                run,
            )


@need_pth
def test_a_script_is_the_main_module_to_its_end_and_beyond(tmp_path):
    script = tmp_path / "s.py"
    text = """
        import atexit, os, pickle, sys, threading, time
        class A: pass
        names = [n for n in globals() if not n.startswith("__") and n not in ("atexit", "os", "pickle", "sys", "threading", "time", "A")]
        assert names == [], names
        assert sys.modules["__main__"].A is A and os.path.isabs(__file__)
        os.chdir("/")
        assert os.path.exists(__file__)
        def late():
            time.sleep(0.3)
            assert type(pickle.loads(pickle.dumps(A()))) is A
            os.write(1, b"thread\\n")
        threading.Thread(target=late).start()
        atexit.register(lambda: (pickle.dumps(A()), os.write(1, b"exit\\n")))
    """
    script.write_text(textwrap.dedent(text))
    for how in (["s.py"], ["-m", "s"], ["-c", script.read_text().replace("__file__", "sys.executable")]):
        run = subprocess.run(
            [sys.executable, "-m", "safetensors_c", *how], cwd=tmp_path, capture_output=True, text=True
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, "thread\nexit\n", ""), how
    run = subprocess.run(
        [sys.executable, "-m", "safetensors_c", "no.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 2 and "can't open file" in run.stderr and "Traceback" not in run.stderr


def test_children_of_a_script_switch_too(tmp_path):
    child = script(tmp_path, "check_ours(); check_never_loaded(); print('child fine')", "child.py")
    path = script(
        tmp_path,
        f"""
        import subprocess
        print(subprocess.run([sys.executable, {child!r}], text=True, capture_output=True, check=True).stdout)
        """,
    )
    assert "child fine" in launch(["-m", "safetensors_c", path])


# ---------------------------------------------------------------- SAFETENSORS_C=1


@need_pth
def test_environment_variable():
    run("check_ours(); check_never_loaded()", env={"SAFETENSORS_C": "1"})
    for value in ("0", ""):
        run("assert 'safetensors_c' not in sys.modules", env={"SAFETENSORS_C": value})
    run("assert 'safetensors_c' not in sys.modules")


@need_pth
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing(tmp_path, method):
    path = script(
        tmp_path,
        f"""
        import multiprocessing
        def work(n):
            check_ours(); check_never_loaded()
            return n + 1
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            with context.Pool(2) as pool:
                assert pool.map(work, [1, 2, 3]) == [2, 3, 4]
            print("fine")
        """,
    )
    assert launch([path], env={"SAFETENSORS_C": "1"}) == "fine\n"
    assert launch(["-m", "safetensors_c", path]) == "fine\n"


@need_pth
@need_torch
def test_data_loader_workers(tmp_path):
    path = script(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Files(Dataset):
            def __len__(self): return 4
            def __getitem__(self, i):
                check_ours(); check_never_loaded()
                import safetensors.torch
                data = safetensors.torch.save({"a": torch.full((2,), float(i))})
                return safetensors.torch.load(data)["a"]
        if __name__ == "__main__":
            loader = DataLoader(Files(), num_workers=2, multiprocessing_context="spawn")
            assert [float(t.sum()) for t in loader] == [0.0, 2.0, 4.0, 6.0]
            print("fine")
        """,
    )
    assert launch([path], env={"SAFETENSORS_C": "1"}) == "fine\n"


@need_pth
@need_torch
def test_torchrun(tmp_path):
    path = script(
        tmp_path,
        """
        import os
        check_ours(); check_never_loaded()
        open(os.path.join(os.path.dirname(__file__), "rank" + os.environ["RANK"]), "w").close()
        """,
    )
    arguments = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", path]
    launch(arguments, env={"SAFETENSORS_C": "1", "OMP_NUM_THREADS": "1"})
    assert sorted(p.name for p in tmp_path.glob("rank*")) == ["rank0", "rank1"]


# ---------------------------------------------------------------- the alias distribution

ALIAS = HERE.parents[1] / "python" / "alias"
need_alias = pytest.mark.skipif(not ALIAS.is_dir(), reason="python/alias is not here")


@need_alias
def test_alias_package():
    import safetensors_c

    text = (ALIAS / "pyproject.toml").read_text()
    assert f'version = "0.8.0+c{safetensors_c.__version__}"' in text
    assert f'"safetensors-c=={safetensors_c.__version__}"' in text
    code = f"""
        sys.path.insert(0, {str(ALIAS)!r})
        check_ours(); check_never_loaded()
        import safetensors, safetensors_c, importlib
        assert safetensors.__file__.startswith({str(ALIAS)!r})
        importlib.import_module(safetensors.SafetensorError.__module__)
        assert safetensors.load_tree is safetensors_c.load_tree
        safetensors_c.install()
        check_ours(); check_never_loaded()
        """
    run(code)


@need_alias
@pytest.mark.skipif(importlib.util.find_spec("setuptools") is None, reason="setuptools is not installed")
def test_alias_distribution(tmp_path):
    import shutil

    source, target = tmp_path / "source", tmp_path / "site"
    shutil.copytree(ALIAS, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    ]
    environment = {**os.environ}
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, env=environment)
    assert (target / "safetensors" / "py.typed").exists()
    run(
        f"""
        sys.path.insert(0, {str(target)!r})
        check_ours(); check_never_loaded()
        import importlib.metadata
        assert importlib.metadata.version("safetensors").startswith("0.8.0+c")
        import safetensors
        assert safetensors.__version__ == importlib.metadata.version("safetensors")
        """
    )
