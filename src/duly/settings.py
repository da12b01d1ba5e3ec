"""Where an option comes from: the call, else the environment, else pyproject.toml, else its default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from duly.durations import Duration, duration
from duly.errors import DefinitionError

DEFAULT_URL = "sqlite:///duly.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every option of an application, resolved."""

    url: str = DEFAULT_URL
    outbox: str | None = None
    """Where `using(connection=…)` writes when that is not the store: a URL of the user's database."""
    namespace: str = "duly"
    lease: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=1)
    """How often an idle worker looks without being rung."""
    grace: timedelta = timedelta(seconds=30)
    """How long a stopping worker lets running tasks finish."""
    concurrency: int = 20
    argument_cap: int = 256_000


DURATIONS = ("lease", "poll", "grace")
NUMBERS = ("concurrency", "argument_cap")


def load(given: Mapping[str, Any]) -> Settings:
    """Settle each option by precedence; a value that cannot be one names where it came from."""
    known = {option.name for option in fields(Settings)}
    unknown = set(given) - known
    if unknown:
        raise DefinitionError(
            f"Duly has no option {sorted(unknown)[0]!r}. The options are {', '.join(sorted(known))}."
        )
    chosen = {name: found for name in known if (found := _look_up(name, given)) is not None}
    return _checked(Settings(**chosen))


def _look_up(name: str, given: Mapping[str, Any]) -> Any:
    variable = f"DULY_{name.upper()}"
    project = _project(Path.cwd())
    for source, value in (
        (name, given.get(name)),
        (variable, os.environ.get(variable)),
        (f"[tool.duly] {name}", project.get(name)),
    ):
        if value is not None and value != "":
            return _convert(name, value, source)
    return None


def _convert(name: str, value: Any, source: str) -> Any:
    if name in DURATIONS:
        return _as_duration(value, source)
    if name in NUMBERS:
        return _as_number(value, source)
    return str(value)


def _as_duration(value: Duration, source: str) -> timedelta:
    return duration(value, what=source, allow_zero=False)


def _as_number(value: Any, source: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise DefinitionError(f"{source} is {value!r}; it takes a whole number of at least 1.")
    return number


def _checked(settings: Settings) -> Settings:
    if settings.lease < timedelta(seconds=1):
        raise DefinitionError(f"lease is {settings.lease}; below 1s a busy machine would lose healthy work.")
    if not settings.namespace.isidentifier() or not settings.namespace.isascii():
        raise DefinitionError(f"namespace is {settings.namespace!r}; use letters, digits and underscores.")
    return settings


@cache
def _project(folder: Path) -> dict[str, Any]:
    path = folder / "pyproject.toml"
    if not path.is_file():
        return {}
    import tomllib  # most applications have no settings there, and it is long to load

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path} cannot be read: {error}") from error
    table: dict[str, Any] = content.get("tool", {}).get("duly", {})
    return table
