# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names that share storage, recorded in the metadata key "sft.aliases" (docs/tree.md has the format).

The value is a JSON object {alias: {"of": stored name, "dtype", "shape", "stride", "offset"}}: the alias is that strided
view of the stored tensor; stride and offset count elements of the alias's dtype. Metadata is untrusted: everything is
checked here, and no view reaches beyond its tensor.
"""

from __future__ import annotations

from typing import NamedTuple

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

KEY: Final = "sft.aliases"
STORAGE: Final = "sft.storage."  # a tensor whose name begins so holds bytes that only aliases show


class View(NamedTuple):
    """One alias."""

    name: str
    of: str
    dtype: str
    shape: list[int]
    stride: list[int]
    offset: int

    def extent(self) -> int:
        """How many elements, of the alias's dtype, the stored tensor must have."""
        if 0 in self.shape:
            return self.offset
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride))

    def check(self, bytes_there: int, item_size: int) -> None:
        if self.extent() * item_size > bytes_there:
            raise _core.SafetensorError(
                f"alias `{self.name}` needs {self.extent() * item_size} bytes of tensor `{self.of}`,"
                f" which has {bytes_there}"
            )


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 62 for n in value)


def parse(metadata: Mapping[str, str]) -> dict[str, View] | None:
    """The recorded aliases; None when there are none."""
    text = metadata.get(KEY)
    if text is None:
        return None
    import json

    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise _core.SafetensorError(f"metadata {KEY}: {e}") from None
    if not isinstance(table, dict):
        raise _core.SafetensorError(f"metadata {KEY}: expected an object")
    views: dict[str, View] = {}
    for name, v in table.items():
        good = (
            isinstance(v, dict)
            and isinstance(v.get("of"), str)
            and isinstance(v.get("dtype"), str)
            and _numbers(v.get("shape"))
            and _numbers(v.get("stride"))
            and len(v["shape"]) == len(v["stride"]) <= 64
            and _numbers([v.get("offset")])
        )
        if not good:
            raise _core.SafetensorError(f"metadata {KEY}: entry `{name}` is not a view of a tensor")
        views[name] = View(name, v["of"], v["dtype"], v["shape"], v["stride"], v["offset"])
    return views


def visible(stored: Iterable[str], links: Mapping[str, View]) -> list[str]:
    """Names that a reader sees: the stored ones, except bare storages, then the aliases."""
    stored = list(stored)
    present = set(stored)
    for view in links.values():
        if view.name in present:
            raise _core.SafetensorError(f"alias `{view.name}` is also a tensor of the file")
        if view.of not in present:
            raise _core.SafetensorError(f"alias `{view.name}` is of `{view.of}`, which the file lacks")
    bare = {v.of for v in links.values() if v.of.startswith(STORAGE)}
    return [n for n in stored if n not in bare] + list(links)


def record(views: Iterable[View]) -> str:
    """The value of the metadata key."""
    import json

    table = {v.name: {k: x for k, x in v._asdict().items() if k != "name"} for v in views}
    return json.dumps(table, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
