"""Where a function or class lives by name, also when its file happens to be running as a script.

`python shop.py` enqueues what `duly worker shop:app` runs: both must say shop. A child process loads the
script once more under a name of its own, and must say shop as well.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Final

SCRIPTS: Final = ("__main__", "__duly_main__")


def home_of(module_name: str) -> str:
    """The name other processes import this module by."""
    module = sys.modules.get(module_name)
    if module_name not in SCRIPTS or module is None:
        return module_name
    spec = module.__spec__
    if spec is not None and spec.name not in SCRIPTS:  # python -m shop
        return spec.name.removesuffix(".__main__")
    return Path(getattr(module, "__file__", None) or module_name).stem


def module_at(home: str) -> ModuleType | None:
    """The module with that name if it is loaded here, perhaps as the script; nothing is imported."""
    if home in sys.modules:
        return sys.modules[home]
    for name in SCRIPTS:
        if name in sys.modules and home_of(name) == home:
            return sys.modules[name]
    return None


def calling_module() -> str:
    """The first module up the stack that is not ours."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("duly."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "__main__"))


def written_at(function: object) -> str:
    """Where a function is written: one that is imported again (a reload, or a child) is the same one."""
    code = getattr(function, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code else getattr(function, "__module__", "?")
    return f"{getattr(function, '__qualname__', function)} ({place})"
