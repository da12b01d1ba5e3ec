"""What a caller wants to travel along with its requests: into the run's log lines, over any process."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final, cast

from duly.errors import BadRequest

Plain = str | int | float | bool | None

CARRIED: Final = "duly.trace"
"""In what is stored with a request, the headers of its trace: `duly.tracing` reads them, log lines do not."""

NOTHING: Final = "{}"
"""What is stored with a request under which nothing was bound."""

_bound: ContextVar[Mapping[str, Plain] | None] = ContextVar("duly_bound", default=None)


@contextmanager
def bind(**context: Plain) -> Generator[None, None, None]:
    """Log lines and requests made inside carry these names and values.

    with duly.bind(lease_id=42, user_id=7):
        search_lease.enqueue(42)
    """
    for name, value in context.items():
        if not isinstance(value, str | int | float | bool | None):
            raise BadRequest(
                f"bind({name}={value!r}) cannot travel: use text, a number, True, False or None."
            )
    token = _bound.set({**bound(), **context})
    try:
        yield
    finally:
        _bound.reset(token)


def bound() -> Mapping[str, Plain]:
    """What is bound here."""
    return _bound.get() or {}


def packed() -> str:
    """As it is stored with a request."""
    return json.dumps(dict(bound())) if _bound.get() else NOTHING


class restored:  # noqa: N801  reads like a function where it is used
    """Inside a run: what its request was made under.

    A class, because every run enters it: a generator would cost it a microsecond.
    """

    __slots__ = ("_text", "_token")

    def __init__(self, text: str) -> None:
        self._text = text
        self._token: Token[Mapping[str, Plain] | None] | None = None

    def __enter__(self) -> None:
        if self._text != NOTHING:
            self._token = _bound.set(_unpacked(self._text))

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _bound.reset(self._token)


def _unpacked(text: str) -> Mapping[str, Plain]:
    """What cannot be read is left out: a log line is not worth a run."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    words = cast(dict[str, Any], found)
    words.pop(CARRIED, None)
    return words


@contextmanager
def unbound() -> Generator[None, None, None]:
    """Nothing is bound inside, as in a process of its own."""
    token = _bound.set(None)
    try:
        yield
    finally:
        _bound.reset(token)
