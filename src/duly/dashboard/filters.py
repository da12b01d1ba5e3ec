"""Which jobs: the same filter as part of an address, as words of `app.jobs`, and as a command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from urllib.parse import urlencode

from duly.errors import BadRequest
from duly.job import State

LONGEST: Final = 500
"""Characters of one value: no address needs more, and no query gets more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What was asked for; every part that is given narrows."""

    task: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    key: str = ""
    error: str = ""
    fingerprint: str = ""

    @classmethod
    def read(cls, pairs: Iterable[tuple[str, str]]) -> Filters:
        """From the pairs of an address or a form; other names are not ours to judge."""
        given: dict[str, list[str]] = {}
        for name, value in pairs:
            if value.strip():
                given.setdefault(name, []).append(_checked(name, value))
        several = {name: tuple(given.get(name, ())) for name in ("task", "state", "queue")}
        one = {name: given.get(name, [""])[-1] for name in SINGLE}
        return cls(**several, **one)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self.pairs())

    def pairs(self) -> list[tuple[str, str]]:
        """As an address carries them."""
        found: list[tuple[str, str]] = []
        for field in fields(self):
            value: str | tuple[str, ...] = getattr(self, field.name)
            values = (value,) if isinstance(value, str) else value
            found += [(field.name, one) for one in values if one]
        return found

    def query(self, **more: object) -> str:
        """`?task=…&state=…`; nothing at all when nothing is asked for."""
        text = urlencode([*self.pairs(), *((name, value) for name, value in more.items() if value)])
        return f"?{text}" if text else ""

    def but(self, **changes: Any) -> Filters:
        """The same with something else in some places."""
        return replace(self, **changes)

    def words(self) -> dict[str, Any]:
        """As `app.jobs` takes them."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name))}

    def options(self, **more: str) -> str:
        """As the command line takes them."""
        given = [*self.pairs(), *((name, value) for name, value in more.items() if value)]
        return " ".join(_option(name, value) for name, value in given)


SINGLE: Final = ("key", "error", "fingerprint")


def _checked(name: str, value: str) -> str:
    if len(value) > LONGEST:
        raise BadRequest(f"The filter {name!r} has {len(value):,} characters; at most {LONGEST} make sense.")
    if name == "state" and value not in set(map(str, State)):
        raise BadRequest(f"No job is ever {value!r}. States: {', '.join(State)}.")
    return value


def _option(name: str, value: str) -> str:
    """With `=` where the value would be taken for another option."""
    return shlex.quote(f"--{name}={value}") if value.startswith("-") else f"--{name} {shlex.quote(value)}"


def flat(form: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """A form as pairs."""
    return [(name, value) for name, values in form.items() for value in values]
