# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report(): the page of the command, for files and tensors; and what notebooks show of open files."""

from __future__ import annotations

import html.parser
import json
import os
import re
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")

import safetensors_c  # noqa: E402
import safetensors_c.numpy as sn  # noqa: E402
from safetensors_c import SafetensorError, _report, report, safe_open  # noqa: E402

TOOL = os.environ["SFT_TOOL"]
HOSTILE = '</script><img src=x onerror="alert(1)">\u202egnp'


@pytest.fixture
def tensors():
    r = np.random.default_rng(7)
    return {
        "model.layers.0.w": r.standard_normal((16, 8), dtype=np.float32),
        "model.layers.1.w": r.standard_normal((16, 8), dtype=np.float32),
        "n": np.arange(5),
    }


@pytest.fixture
def path(tensors, tmp_path):
    sn.save_file(tensors, tmp_path / "a.safetensors", {"about": "a <b>test</b>"})
    return tmp_path / "a.safetensors"


def command_makes(path, *options):
    return subprocess.run(
        [TOOL, "report", "-o", "-", *options, "--", path], check=True, stdout=subprocess.PIPE
    ).stdout


def test_is_what_the_command_writes(path, tmp_path):
    made = report(path, tmp_path / "out.html", tool=TOOL)
    assert made.html.encode() == command_makes(path) == (tmp_path / "out.html").read_bytes()
    assert made.summary["totals"] == {"tensors": 3, "parameters": 261, "bytes": 1064, "aliases": 0}
    assert made.summary["metadata"][0]["value"] == "a <b>test</b>"
    assert made.summary["statistics"] == "full"
    assert repr(made) == f"<report of 'a.safetensors', {len(made.html.encode()):,} bytes>"
    assert [f for f in os.listdir(tmp_path) if "part" in f] == []
    for how, options in ({"stats": "none"}, ["--stats", "none"]), ({"sample": 64}, ["--sample", "64"]):
        assert report(str(path), tool=TOOL, **how).html.encode() == command_makes(path, *options)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_tensors(tensors, path, framework):
    if framework == "torch":
        torch = pytest.importorskip("torch")
        tensors = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
        tensors["same memory"] = tensors["n"][1:]
        tensors["bf16"] = tensors["n"].to(torch.bfloat16)
    before = set(os.listdir(tempfile_folder()))
    made = report(tensors, name="mine", tool=TOOL)
    assert not [
        new for new in set(os.listdir(tempfile_folder())) - before if new.startswith("safetensors-report")
    ]
    assert made.summary["name"] == "mine.safetensors"
    assert made.summary["totals"]["tensors"] == len(tensors)
    assert made.summary["dtypes"][0]["name"] in ("F32", "I64", "BF16")
    with pytest.raises(ValueError, match="names no folder"):
        report(tensors, name="../x", tool=TOOL)


def tempfile_folder():
    import tempfile

    return tempfile.gettempdir()


def test_what_is_no_tensor(tensors):
    with pytest.raises(TypeError, match="'step' is no tensor of a known framework but int"):
        report({**tensors, "step": 3}, tool=TOOL)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="one framework at a time, not of numpy and torch"):
        report({**tensors, "t": torch.zeros(1)}, tool=TOOL)
    assert report({}, tool=TOOL).summary["totals"]["tensors"] == 0


def test_errors(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        report(tmp_path / "nothing", tool=TOOL)
    (tmp_path / "bad").write_bytes(b"\xff" * 64)
    with pytest.raises(SafetensorError, match="bad: "):
        report(tmp_path / "bad", tool=TOOL)
    with pytest.raises(ValueError, match="one of full, sample and none"):
        report(path, stats="all", tool=TOOL)
    with pytest.raises(ValueError, match="^--max-size: the names, shapes and places of 3 tensors"):
        report(path, max_size=10, tool=TOOL)
    with pytest.raises(ValueError, match="a model has its own"):
        report(path, name="x", tool=TOOL)
    with pytest.raises(FileNotFoundError):
        report(path, tool=tmp_path / "no tool")


def test_what_has_no_room_is_told(tmp_path):
    sn.save_file({f"t{i}": np.ones((64, 64), np.float32) for i in range(400)}, tmp_path / "m")
    with pytest.warns(UserWarning, match="left out of the report: thumbnails of .* of 400 tensors"):
        made = report(tmp_path / "m", max_size=200_000, tool=TOOL)
    assert len(made.html) <= 200_000 and len(made.summary["left_out"]) >= 1


def test_a_name_that_looks_like_an_option(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.rename(path, "--help")
    assert report("--help", tool=TOOL).summary["totals"]["tensors"] == 3


def test_saved_whole_or_not_at_all(path, tmp_path):
    made = report(path, tool=TOOL)
    (tmp_path / "r.html").write_text("<!DOCTYPE html>older")
    made.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_bytes() == made.html.encode()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        made.save(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "folder", "r.html"]


def test_nothing_of_the_model_is_written_over(path, tmp_path, monkeypatch):
    before = path.read_bytes()
    other = tmp_path / "link"
    os.link(path, other)
    monkeypatch.chdir(tmp_path)
    for output in (path, "a.safetensors", "./x/../a.safetensors", other, os.fsencode(path)):
        os.makedirs("x", exist_ok=True)
        with pytest.raises(ValueError, match="output and input are the same file"):
            report(path, output, tool=TOOL)
    made = report(os.fsencode(path), tool=TOOL)
    with pytest.raises(FileExistsError):
        made.save(path)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError, match="nowhere"):
        made.save(tmp_path / "nowhere" / "r.html")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="same file"):
        report(path, tmp_path / "config.json", tool=TOOL)


def test_types_that_the_format_has_not(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="no such element type"):
        report({"q": torch.zeros(2, dtype=torch.complex128)}, tool=TOOL)
    with pytest.raises(RuntimeError, match="is no report"):
        report({"a": np.zeros(1)}, tool="/bin/echo")


def test_which_command(path, tmp_path, monkeypatch):
    """Without tool=: one in PATH, and only of this version."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="the command safetensors is missing"):
        report(path)
    other = tmp_path / "safetensors"
    other.write_text("#!/bin/sh\necho safetensors 0.0.1\n")
    other.chmod(0o755)
    with pytest.raises(
        RuntimeError, match=f"is not the command of version {re.escape(safetensors_c.__version__)}"
    ):
        report(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(("", ".", "bin")))
    with pytest.raises(RuntimeError, match="the command safetensors is missing"):
        report(path)  # what lies in the current directory is not run
    monkeypatch.setenv("PATH", str(tmp_path))
    other.unlink()
    other.symlink_to(TOOL)
    assert report(path).html.encode() == command_makes(path)
    # one that was installed with the package comes first
    site = tmp_path / "site"
    info = site / f"safetensors_c-{safetensors_c.__version__}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: safetensors-c\nVersion: {safetensors_c.__version__}\n"
    )
    (info / "RECORD").write_text("../bin/safetensors,,\nsafetensors_c/__init__.py,,\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "safetensors").symlink_to(TOOL)
    monkeypatch.setattr(_report, "__file__", str(site / "safetensors_c" / "_report.py"))
    assert os.path.realpath(_report._find_tool()) == os.path.realpath(TOOL)
    assert str(tmp_path / "bin") in os.path.dirname(os.path.normpath(_report._find_tool()))


class Page(html.parser.HTMLParser):
    """Elements, texts and attributes of a piece of HTML."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.attributes = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def test_a_report_in_a_notebook(tmp_path):
    sn.save_file({HOSTILE: np.ones(3)}, tmp_path / "m", {"k": HOSTILE})
    made = report(tmp_path / "m", tool=TOOL)
    shown = Page(made._repr_html_())
    assert shown.tags == ["iframe"]
    attributes = dict(shown.attributes)
    assert attributes["srcdoc"] == made.html
    assert attributes["sandbox"] == "allow-scripts"  # no access to the notebook
    assert "<img" not in made.html


def test_a_handle_in_a_notebook(path, tmp_path):
    with safe_open(path, "np") as f:
        shown = Page(f._repr_html_())
    assert set(shown.tags) <= {"p", "b", "table", "thead", "tbody", "tr", "th", "td", "bdi"}
    text = " ".join(shown.texts)
    assert text.startswith("3  tensors,  261  elements,  1,064  bytes")
    assert "a <b>test</b>" in shown.texts and "16 × 8" in shown.texts and "F32" in shown.texts
    assert "closed" in Page(f._repr_html_()).texts[0]

    many = {f"t{i:04}": np.zeros(()) for i in range(250)}
    many[HOSTILE] = np.zeros((0, 3))
    sn.save_file(many, tmp_path / "many", {str(i): "v" * 1000 for i in range(130)})
    with safe_open(tmp_path / "many", "np") as f:
        page = f._repr_html_()
    shown = Page(page)
    assert "and 151 more" in shown.texts and "30 more" in shown.texts and "scalar" in shown.texts
    assert "img" not in shown.tags and "\u202e" not in page
    assert len(page) < 100_000
    with safetensors_c.open_any(path, framework="np") as f:
        assert "model.layers.0.w" in Page(f._repr_html_()).texts


def test_nothing_is_imported_before_it_is_asked_for():
    code = "import safetensors_c, sys; print('safetensors_c._report' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout
    assert said.split() == [b"False"]


def test_the_summary_is_json(path):
    made = report(path, stats="none", tool=TOOL)
    text = subprocess.run(
        [TOOL, "report", "--json", "--stats", "none", path], check=True, stdout=subprocess.PIPE
    ).stdout
    of_command = json.loads(text)
    assert {
        key: made.summary[key] for key in ("schema", "files", "totals", "dtypes", "kinds", "findings")
    } == {key: of_command[key] for key in ("schema", "files", "totals", "dtypes", "kinds", "findings")}
