"""After which time what happens to a receipt: one value, read once when the ledger is made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from duly.durations import Duration, duration
from duly.errors import DefinitionError

SHORTEST_LOSS: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The times and limits of a ledger."""

    lease: timedelta
    interval: timedelta
    lost_after: timedelta
    redeliver_after: timedelta
    max_hand_overs: int
    keep_for: timedelta

    def wait_after(self, hand_overs: int) -> timedelta:
        """After the nth hand-over: twice as long each time, for a queue that is only slow."""
        doublings = min(max(hand_overs - 1, 0), 16)
        return self.redeliver_after * (1 << doublings)


def terms(
    *,
    lease: Duration,
    interval: Duration,
    lost_after: Duration | None,
    redeliver_after: Duration,
    max_hand_overs: int,
    keep_for: Duration,
) -> Terms:
    """The terms as a user wrote them, checked."""
    if type(max_hand_overs) is not int or max_hand_overs < 1:
        raise DefinitionError(
            f"max_hand_overs={max_hand_overs!r} would hand nothing over. Use a whole number of at least 1."
        )
    every = duration(interval, what="interval", allow_zero=False)
    return Terms(
        lease=duration(lease, what="lease", allow_zero=False),
        interval=every,
        lost_after=_lost_after(lost_after, every),
        redeliver_after=duration(redeliver_after, what="redeliver_after", allow_zero=False),
        max_hand_overs=max_hand_overs,
        keep_for=duration(keep_for, what="keep_for"),
    )


def _lost_after(given: Duration | None, interval: timedelta) -> timedelta:
    if given is None:
        return max(SHORTEST_LOSS, 2 * interval)
    return duration(given, what="lost_after", allow_zero=False)
