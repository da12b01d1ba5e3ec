"""How many jobs are on loan from lanes with a limit.

Loans that ended leave dead entries in the index until a vacuum may remove them, which it may not while
anybody holds an old snapshot; a count from the beginning walks over all of them. Loans are numbered, and
those from lanes with a limit come one claim after the other; so a process remembers which ones it saw, and
looks for these and for later ones. Workers that do not know of the limit do not wait for one another: for the
sake of their loans the count begins anew every second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from duly.stores.postgres.operations.arrays import integers

A_SECOND: Final = 1_000_000


class _Seen(NamedTuple):
    """The loans of a lane, as they were last seen."""

    generations: frozenset[int] = frozenset()
    newest: int = 0
    counted_at: int | None = None
    """When they were last counted from the beginning."""


NEVER: Final = _Seen()


class Loads:
    """What one process knows of the loans of each lane."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Seen] = {}

    def asked(self, lanes: Collection[int], now: int) -> dict[str, Any]:
        """The parameters of a count."""
        seen = [self._seen(number, now) for number in lanes]
        return {
            "counted": integers(lanes),
            "newest": integers([one.newest for one in seen]),
            "seen": integers([generation for one in seen for generation in one.generations]),
        }

    def learn(self, lanes: Collection[int], found: Iterable[Sequence[Any]], now: int) -> Counter[int]:
        """The answer to a count: lane, generation and number of each loan; the last of all has no lane."""
        loans: dict[int, dict[int, int]] = {number: {} for number in lanes}
        last = 0
        for lane, generation, number in found:
            if lane is None:
                last = number
            elif lane in loans:  # not one that was lent anew, from another lane
                loans[lane][generation] = number
        for lane, numbers in loans.items():
            known = self._seen(lane, now)
            newest = max(known.newest, last, *numbers.values())
            counted_at = now if known.counted_at is None else known.counted_at
            self._lanes[lane] = _Seen(frozenset(numbers), newest, counted_at)
        return Counter({lane: len(numbers) for lane, numbers in loans.items()})

    def _seen(self, number: int, now: int) -> _Seen:
        seen = self._lanes.get(number, NEVER)
        is_fresh = seen.counted_at is not None and 0 <= now - seen.counted_at < A_SECOND
        return seen if is_fresh else NEVER

    def forget(self) -> None:
        """The schema may be another one at the next opening."""
        self._lanes = {}
