"""What becomes of an end that the store has answered: it is counted, told, and followed by hooks.

Touched by the pump's thread alone.
"""

from __future__ import annotations

from collections.abc import Callable

from duly.events import Events
from duly.lifecycle import Settled
from duly.worker.endings import Concluded, is_plain, outcome_of, tell_end
from duly.worker.failures import hook_call
from duly.worker.hand import Halt, Holding
from duly.worker.tally import Tally


class Tidings:
    """Most ends are news to nobody: those are counted together, when there is time."""

    def __init__(
        self, events: Events, tally: Tally, call_aside: Callable[[Callable[[], None]], None]
    ) -> None:
        self._events = events
        self._tally = tally
        self._call_aside = call_aside
        self._done: list[Holding] = []
        """Runs that ended well, are settled, and news to nobody; still to be counted."""
        self._tells_done = True
        """Somebody wants to hear of each of them."""
        self.finished = 0
        """Runs that ended here, for recycling."""

    def look_who_listens(self) -> None:
        """Asked once a turn: listeners come and go."""
        self._tells_done = self._events.hears("done")

    def tell(self, item: Concluded, answer: Settled, now: float) -> None:
        """One end, and what the store said to it at that moment, monotonic."""
        if is_plain(item, answer) and not self._tells_done:
            item.holding.settled = now
            self._done.append(item.holding)
            self.finished += 1
        else:
            self._tell_about(item, answer, now)

    def count(self) -> None:
        """Those that were put off."""
        if self._done:
            done, self._done = self._done, []
            self._tally.note_done(done)

    def _tell_about(self, item: Concluded, answer: Settled, now: float) -> None:
        holding = item.holding
        took = None if holding.started_at is None else now - holding.started
        self.finished += 0 if took is None else 1
        outcome = outcome_of(item.verdict, answer, holding.halt)
        self._tally.note(holding.claim.task, holding.claim.queue, outcome, holding.wait, took)
        tell_end(self._events, item, answer, took or 0.0)
        counts = answer is Settled.SETTLED and holding.halt is not Halt.CANCELLED
        hook = hook_call(holding, item.verdict) if counts else None
        if hook is not None:
            self._call_aside(hook)
