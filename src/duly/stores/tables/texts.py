"""The SQL of each operation, read once from the file that bears its name.

A file opens with what it promises; a line `-- name: word` starts each of its statements. What stands
in braces is spelled by the driver, or is another statement that the operation puts there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_HEADING: Final = "-- name:"
_NAME: Final = re.compile(r":(\w+)")


@cache
def statements(operation: str, package: str) -> Mapping[str, str]:
    """Every statement of `sql/<operation>.sql` in a package, by its name."""
    text = files(package).joinpath("sql", f"{operation}.sql").read_text(encoding="utf-8")
    _, *parts = text.split(_HEADING)
    return dict(_named(part) for part in parts)


def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """A statement with numbers for names, and the names in that order: a value found by its place is bound in
    half the time."""
    names = tuple(dict.fromkeys(_NAME.findall(text)))
    return _NAME.sub(lambda found: f"?{names.index(found[1]) + 1}", text), names


def _named(part: str) -> tuple[str, str]:
    name, _, body = part.partition("\n")
    return name.strip(), "\n".join(line for line in body.splitlines() if _says_something(line))


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("--")
