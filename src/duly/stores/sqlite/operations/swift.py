"""swift: put one request that meets nobody, in one statement instead of five.

Where anything is not as it mostly is (a notice, a newer schema, an intake, a known id), the request goes the
way of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from duly.bundle import Bundle
from duly.job import Decision, Request
from duly.stores.contract import Placed
from duly.stores.drive import Counted, Steps
from duly.stores.sqlite.operations.arrivals import arrived, columns
from duly.stores.sqlite.operations.texts import statements
from duly.stores.tables.requests import FORMAT
from duly.stores.tables.texts import numbered

INSERT, _NAMES = numbered(statements("swift")["insert"])
_counted: Final[Callable[[Sequence[object]], Counted]] = partial(cast(Any, tuple).__new__, Counted)
_placed: Final[Callable[[Sequence[object]], Placed]] = partial(cast(Any, tuple).__new__, Placed)
"""Named tuples' own constructors are functions of Python, as are some sixty that a request goes through."""
OWN: Final = 6
"""Values that each request brings: id, arguments, created_at, due, expires_at and level stand first."""


class Mould:
    """The row that requests of one pattern become, but for what is their own: kept from call to call."""

    __slots__ = ("_is_prompt", "_shared", "meets_nobody", "pattern")

    def __init__(self, pattern: Request) -> None:
        self.pattern = pattern
        self.meets_nobody = pattern.lane_of_serial is None
        """No request of the pattern can find another in its way."""
        shared = columns(arrived(pattern, 0)) | {"format": FORMAT}
        self._shared = tuple(plain(shared[name]) for name in _NAMES[OWN:])
        times = (pattern.run_after, pattern.delay, pattern.expires_after)
        self._is_prompt = all(each is None for each in times)

    def values(self, job_id: str, arguments: str, now: int, level: int | None) -> tuple[Any, ...]:
        """What the insertion of one takes, in its order."""
        due, expires_at = now, None
        if not self._is_prompt:
            arrival = arrived(self.pattern, now)
            due, expires_at = arrival.due, arrival.expires_at
        return job_id, arguments, now, due, expires_at, level, *self._shared


def plain(value: Any) -> Any:
    """A word of an enumeration as bare text, since SQLite's module first asks what to make of anything else.

    By the method of `str`: an enumeration's own may tell its name.
    """
    return str.__str__(value) if isinstance(value, str) else value


def alone(requests: Sequence[Request]) -> tuple[Request, str, str] | None:
    """Pattern, id and arguments of the only request, as a bundle has them: making one whole costs 6 µs."""
    if isinstance(requests, Bundle):
        return (requests.pattern, requests.ids[0], requests.arguments[0]) if len(requests.ids) == 1 else None
    return (requests[0], requests[0].id, requests[0].arguments) if len(requests) == 1 else None


def put_alone(
    job_id: str, values: tuple[Any, ...], otherwise: Callable[[], Steps[list[Placed]]]
) -> Steps[list[Placed]]:
    """Store it at once, or as others are."""
    ((stored, generation),) = yield _counted((INSERT, values))
    if stored:
        return [_placed((job_id, generation, Decision.CREATED))]
    return (yield from otherwise())
