# SPDX-License-Identifier: Apache-2.0 OR MIT
"""report: a model as one page, for notebooks and files; and what a notebook shows of an open file.

The command `safetensors`, which comes with this package, makes the page (docs/report.md).
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _core

Path = Union[str, os.PathLike]

_BEGIN = b"<!doctype html>"
_PAGE = 20_000_000
_IN_NOTEBOOK = 4_000_000  # the notebook keeps what it shows
_ROWS = 100
_FRAMEWORKS = {
    "torch": "torch",
    "numpy": "numpy",
    "jax": "flax",
    "jaxlib": "flax",
    "tensorflow": "tensorflow",
}
_FRAMEWORKS |= {"paddle": "paddle", "mlx": "mlx"}


class Report:
    """A page about a model: html, what it is made of (summary), save(); a notebook shows it."""

    def __init__(self, page: bytes) -> None:
        self._page = page

    @property
    def html(self) -> str:
        """The whole page, which needs nothing else."""
        return self._page.decode("utf-8")

    @property
    def summary(self) -> dict[str, Any]:
        """The object that docs/report.md describes: files, metadata, totals, dtypes, findings ..."""
        begin = self._page.index(b">", self._page.index(b'id="sft-summary"')) + 1
        found: dict[str, Any] = json.loads(self._page[begin : self._page.index(b"</script>", begin)])
        return found

    def save(self, path: Path) -> None:
        """Writes the page. The file appears when it is complete; an older page is replaced, another file is not
        (FileExistsError)."""
        path = os.fsdecode(path)
        if os.path.isfile(path):
            with open(path, "rb") as f:
                if f.read(len(_BEGIN)).lower() != _BEGIN:
                    raise FileExistsError(17, "The file exists, and is no page", path)
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise FileNotFoundError(2, "No such file or directory", folder)
        number, temporary = tempfile.mkstemp(".part", os.path.basename(path), folder)
        try:
            with open(number, "wb") as f:
                f.write(self._page)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def __repr__(self) -> str:
        return f"<report of {self.summary.get('name', 'a model')!r}, {len(self._page):,} bytes>"

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts" style="width: 100%; height: 44em; border: 1px solid #8884"'
            f' title="report" srcdoc="{html.escape(self.html)}"></iframe>'
        )


def report(
    model: Path | Mapping[str, Any],
    output: Path | None = None,
    *,
    stats: str = "full",
    sample: int | None = None,
    max_size: int | None = None,
    name: str | None = None,
    tool: Path | None = None,
) -> Report:
    """The page of `safetensors report`: tensors with statistics, histograms and thumbnails, metadata, findings.

    model: whatever the command takes (a file of any known format, a directory, an index, a URL), or tensors of one framework
        by name. These are written into a temporary file first, tensor by tensor, and shown as `name`.
    output: where to save the page, too: over an older file, but none of the model's (ValueError). stats: "full", "sample" or "none"; sample: with about so many values of each tensor.
    max_size: bytes of the page at most; what has no room is left out, with a UserWarning (20,000,000 with an output, 4,000,000
        without one). tool: the command, if it is not the one that was installed with this package.
    Raises FileNotFoundError, TypeError, ValueError for arguments, SafetensorError for what cannot be read, and RuntimeError
    where the command is missing or of another version.
    """
    command = [_find_tool() if tool is None else os.fspath(tool), "report", "--quiet"]
    if sample is not None:
        command += ["--sample", str(int(sample))]
    elif stats in ("full", "sample", "none"):
        command += ["--stats", stats]
    else:
        raise ValueError(f"stats is one of full, sample and none, not {stats!r}")
    if max_size is None:
        max_size = _IN_NOTEBOOK if output is None else _PAGE
    # The command knows which files are the model's, and writes over none of them.
    to = "-" if output is None else os.path.abspath(os.fsdecode(output))
    command += ["--max-size", str(int(max_size)), "--force", "-o", to, "--"]
    if isinstance(model, Mapping):
        with tempfile.TemporaryDirectory(prefix="safetensors-report-") as folder:
            path = os.path.join(folder, _file_name(name))
            _save(model, path)
            page = _run([*command, path])
    else:
        if name is not None:
            raise ValueError("name is for tensors: a model has its own")
        path = os.fsdecode(model)
        if "://" not in path and not os.path.exists(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        page = _run([*command, os.path.join(".", path) if path.startswith("-") else path])
    if output is not None:
        with open(to, "rb") as f:
            page = f.read()
    return _made(page)


def _made(page: bytes) -> Report:
    if not page.startswith(_BEGIN) or b'id="sft-summary"' not in page:
        raise RuntimeError("what the command wrote is no report: is it safetensors?")
    made = Report(page)
    for sentence in made.summary.get("left_out", []):
        warnings.warn(f"left out of the report: {sentence}", UserWarning, stacklevel=3)
    return made


def _file_name(name: str | None) -> str:
    """Under which the page shows tensors."""
    if name is None:
        return "tensors.safetensors"
    if name in ("", ".", "..") or os.path.basename(name) != name:
        raise ValueError(f"name is shown, and names no folder: {name!r}")
    return name + ".safetensors"


def _save(tensors: Mapping[str, Any], path: str) -> None:
    from importlib import import_module

    origins = {name: type(tensor).__module__.partition(".")[0] for name, tensor in tensors.items()}
    for name, origin in origins.items():
        if origin not in _FRAMEWORKS:
            raise TypeError(f"{name!r} is no tensor of a known framework but {type(tensors[name]).__name__}")
    if len(kinds := {_FRAMEWORKS[origin] for origin in origins.values()}) > 1:
        raise TypeError(f"tensors of one framework at a time, not of {' and '.join(sorted(kinds))}")
    if not kinds:
        _core.serialize_file({}, path)
        return
    framework = import_module("." + kinds.pop(), __package__)
    try:
        framework.save_stream(tensors, tensors.__getitem__, path)
    except KeyError as e:
        raise TypeError(f"safetensors has no such element type: {e}") from None


def _run(command: list[str]) -> bytes:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = done.stderr.decode("utf-8", "replace").strip()
    said = said.partition("\nhint: ")[0].removeprefix("safetensors: ")
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode == 2:
        raise ValueError(said.removeprefix("report: "))
    if done.returncode != 0:
        raise _core.SafetensorError(said or f"the command ended with status {done.returncode}")
    return done.stdout


def _find_tool() -> str:
    """The command that was installed with this package; else the one in PATH, if it is of this version."""
    from importlib.metadata import distributions

    wanted = "safetensors.exe" if sys.platform == "win32" else "safetensors"
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = [os.path.join(here, "bin", wanted)]  # pip install --target
    for found in distributions(name="safetensors-c", path=[here]):
        installed += [str(file.locate()) for file in found.files or () if file.name == wanted]
    for path in installed:
        if os.access(path, os.X_OK):
            return path
    # Nothing of the current directory is run.
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    other = shutil.which("safetensors", path=os.pathsep.join(folders))
    if other is not None and not os.path.isabs(other):
        other = None
    if other is None:
        raise RuntimeError(
            "the command safetensors is missing: this package was installed without it; tool= names one"
        )
    said = subprocess.run([other, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    if said.decode("utf-8", "replace").strip() != f"safetensors {_core.__version__}":
        raise RuntimeError(
            f"{other} is not the command of version {_core.__version__}, which a report needs; tool= names one"
        )
    return other


# ---------------------------------------------------------------- open files in notebooks


def handle_html(handle: Any) -> str:
    """What a notebook shows of an open file: how much it holds, its metadata, its first tensors. Reads nothing."""
    try:
        names = handle.offset_keys()
    except _core.SafetensorError:
        return f"<p>{html.escape(repr(handle))}</p>"
    total = elements = 0
    rows = []
    for i, name in enumerate(names):
        meta = handle.get_tensor_meta(name)
        count = 1
        for extent in meta.shape:
            count *= extent
        elements += count
        total += meta.nbytes
        if i < _ROWS:
            shape = " × ".join(map(str, meta.shape)) or "scalar"
            rows.append((_shown(name), meta.dtype, shape, f"{meta.nbytes:,}"))
    more = f"<p>and {len(names) - _ROWS:,} more</p>" if len(names) > _ROWS else ""
    metadata = handle.metadata() or {}
    about = [(_shown(key), _shown(text)) for key, text in list(metadata.items())[:_ROWS]]
    about += [("…", f"{len(metadata) - _ROWS:,} more")] if len(metadata) > _ROWS else []
    return (
        f"<p><b>{len(names):,}</b> tensors, <b>{elements:,}</b> elements, <b>{total:,}</b> bytes</p>"
        + (_table(("metadata", ""), about) if about else "")
        + _table(("tensor", "type", "shape", "bytes"), rows)
        + more
    )


def _shown(text: str) -> str:
    """A text that cannot look like another: what has no glyph or turns the direction is written out, the middle of long ones
    is left out."""
    if len(text) > 300:
        text = f"{text[:200]} … {text[-80:]}"
    return "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    def line(tag: str, cells: tuple[str, ...]) -> str:
        return (
            "<tr>"
            + "".join(
                f'<{tag} style="text-align: left"><bdi>{html.escape(cell)}</bdi></{tag}>' for cell in cells
            )
            + "</tr>"
        )

    return f"<table><thead>{line('th', head)}</thead><tbody>{''.join(line('td', r) for r in rows)}</tbody></table>"
