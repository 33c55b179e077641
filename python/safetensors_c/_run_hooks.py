# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a module does of its own when it loads a state: whether it does anything, and how it is made to."""

from __future__ import annotations

import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loads_itself(module: Any) -> bool:
    """Whether the module, or one in it, loads by a method or a hook that is not torch's own."""
    return not _of_torch(type(module).load_state_dict) or any(
        not _of_torch(type(m)._load_from_state_dict)
        or not all(map(_of_torch, m._load_state_dict_pre_hooks.values()))
        or not all(map(_of_torch, m._load_state_dict_post_hooks.values()))
        for m in module.modules()
    )


def _of_torch(function: Any) -> bool:
    function = getattr(function, "hook", function)  # torch wraps those that get the module
    return f"{getattr(function, '__module__', None)}.".startswith("torch.")


def load(module: Any, state: dict[str, Any]) -> None:
    """load_state_dict of what the module says of itself now and of `state`. What its state_dict leaves out is not missed."""
    whole = {**module.state_dict(), **state}
    names = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    how = inspect.signature(module.load_state_dict).parameters.values()
    if all(name in whole for name in names) or not any(
        p.name == "strict" or p.kind is p.VAR_KEYWORD for p in how
    ):
        module.load_state_dict(whole)
        return
    told = module.load_state_dict(whole, strict=False)
    more = getattr(told, "unexpected_keys", None)
    if more:
        raise RuntimeError(f"unexpected: {', '.join(more)}")
