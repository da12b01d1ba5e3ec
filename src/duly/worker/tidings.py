"""What becomes of an end that the store has answered: it is counted, told, and followed by hooks.

Touched by the pump's thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duly.app import App
from duly.lifecycle import Settled
from duly.stores.contract import Settlement
from duly.worker.doubts import seen_again
from duly.worker.endings import DONE, Concluded, outcome_of, tell_end
from duly.worker.failures import hook_call
from duly.worker.hand import Halt, Holding
from duly.worker.tally import Tally


class Tidings:
    """Most ends are news to nobody: those are counted together, when there is time."""

    def __init__(self, app: App, tally: Tally, call_aside: Callable[[Callable[[], None]], None]) -> None:
        self._events = app.events
        self._store = app.store
        self._tally = tally
        self._call_aside = call_aside
        self._done: list[tuple[list[Holding], float]] = []
        """Runs that ended well, were settled at that moment, and are news to nobody; still to be counted."""
        self._tells_done = True
        """Somebody wants to hear of each of them."""
        self.finished = 0
        """Runs that ended here, for recycling."""

    def look_who_listens(self) -> None:
        """Asked once a turn: listeners come and go."""
        self._tells_done = self._events.hears("done")

    def tell(self, ended: Sequence[Concluded | Settlement], answers: Sequence[Settled], now: float) -> None:
        """Ends, and what the store said to them at that moment, monotonic; those of schedules are no news.

        The store idles until it is asked again: whatever can wait is left for `count`.
        """
        done: list[Holding] = []
        is_quiet = not self._tells_done
        for item, answer in zip(ended, answers, strict=True):
            if not isinstance(item, Concluded):
                continue
            if is_quiet and item.verdict is DONE and answer is Settled.SETTLED and item.holding.halt is None:
                done.append(item.holding)
            else:
                self._tell_about(*seen_again(self._store, item, answer), now)
        if done:  # else an idle worker would write down at every look that it did nothing
            self.finished += len(done)
            self._done.append((done, now))

    def count(self) -> None:
        """Those that were put off."""
        done, self._done = self._done, []
        for holdings, settled_at in done:
            self._tally.note_done(holdings, settled_at)

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
