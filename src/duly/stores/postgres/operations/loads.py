"""How many jobs are on loan from lanes with a limit.

Loans that ended leave dead entries in the index until a vacuum may remove them, which it may not while
anybody holds an old snapshot; a count from the beginning walks over all of them. Loans are numbered, and
those from lanes with a limit come one claim after the other; so a process remembers which ones it saw, and
looks for these and for later ones. Workers that do not know of the limit do not wait for one another: for the
sake of their loans the count begins anew every second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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


class Count(NamedTuple):
    """A count to be made, and what was known when it was asked for: its answer goes with nothing else.

    Another thread may learn of later loans before the answer is read; who took their numbers as known and
    this answer as all there is would never look for them.
    """

    lanes: dict[int, _Seen]
    now: int

    @property
    def parameters(self) -> dict[str, Any]:
        seen = self.lanes.values()
        return {
            "counted": integers(self.lanes),
            "newest": integers([one.newest for one in seen]),
            "seen": integers([generation for one in seen for generation in one.generations]),
        }


class Loads:
    """What one process knows of the loans of each lane."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Seen] = {}

    def asked(self, lanes: Iterable[int], now: int) -> Count:
        """What to count in these lanes."""
        known = self._lanes
        return Count({number: _fresh(known.get(number, NEVER), now) for number in lanes}, now)

    def learn(self, count: Count, found: Iterable[Sequence[Any]]) -> Counter[int]:
        """The answer to a count: lane, generation and number of each loan; the last of all has no lane."""
        loans: dict[int, dict[int, int]] = {number: {} for number in count.lanes}
        last = 0
        for lane, generation, number in found:
            if lane is None:
                last = number
            elif lane in loans:  # not one that was lent anew, from another lane
                loans[lane][generation] = number
        seen = {lane: _seen(count, lane, numbers, last) for lane, numbers in loans.items()}
        self._lanes = self._lanes | seen  # at once, for other threads
        return Counter({lane: len(numbers) for lane, numbers in loans.items()})

    def forget(self) -> None:
        """The schema may be another one at the next opening."""
        self._lanes = {}


def _fresh(seen: _Seen, now: int) -> _Seen:
    is_fresh = seen.counted_at is not None and 0 <= now - seen.counted_at < A_SECOND
    return seen if is_fresh else NEVER


def _seen(count: Count, lane: int, numbers: Mapping[int, int], last: int) -> _Seen:
    known = count.lanes[lane]
    newest = max(known.newest, last, *numbers.values())
    counted_at = count.now if known.counted_at is None else known.counted_at
    return _Seen(frozenset(numbers), newest, counted_at)
