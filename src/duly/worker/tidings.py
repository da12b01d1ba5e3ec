"""What becomes of an end that the store has answered: it is let go of, counted, told, and followed by hooks.

Touched by the pump's thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import cast

from duly.app import App
from duly.lifecycle import Settled
from duly.stores.contract import Settlement
from duly.worker.doubts import seen_again
from duly.worker.endings import DONE, Concluded, outcome_of, tell_end
from duly.worker.failures import hook_call
from duly.worker.hand import Halt, Hand
from duly.worker.tally import Tally


class Tidings:
    """Most ends are news to nobody: those are counted together, when there is time."""

    def __init__(
        self, app: App, hand: Hand, tally: Tally, call_aside: Callable[[Callable[[], None]], None]
    ) -> None:
        self._events = app.events
        self._store = app.store
        self._hand = hand
        self._tally = tally
        self._call_aside = call_aside
        self._put_off: list[tuple[Sequence[Concluded], float]] = []
        """Runs that ended well, were settled at that moment, and are news to nobody; still in hand."""
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
        is_news = self._news(ended, answers)
        if not any(is_news):
            self._put_aside(cast("Sequence[Concluded]", ended), now)
            return
        told = [*compress(zip(ended, answers, strict=True), is_news)]
        for item, answer in told:
            if isinstance(item, Concluded):
                self._tell_about(*seen_again(self._store, item, answer), now)
        self._hand.drop(
            [item.holding.fence if isinstance(item, Concluded) else item.fence for item, _ in told]
        )
        others = [item for item, is_told in zip(ended, is_news, strict=True) if not is_told]
        self._put_aside(cast("Sequence[Concluded]", others), now)

    def _news(self, ended: Sequence[Concluded | Settlement], answers: Sequence[Settled]) -> list[bool]:
        """For each, whether it must be told of at once. Schedules are never done."""
        if self._tells_done:
            return [True] * len(ended)
        is_settled = answers.count(Settled.SETTLED) == len(answers)
        if is_settled and all([item.verdict is DONE for item in ended]):  # noqa: C419  a generator costs more
            return [item.holding.halt is not None for item in cast("Sequence[Concluded]", ended)]
        return [
            not (
                isinstance(item, Concluded)
                and item.verdict is DONE
                and answer is Settled.SETTLED
                and item.holding.halt is None
            )
            for item, answer in zip(ended, answers, strict=True)
        ]

    def _put_aside(self, done: Sequence[Concluded], now: float) -> None:
        if done:  # else an idle worker would write down at every look that it did nothing
            self.finished += len(done)
            self._put_off.append((done, now))

    def count(self) -> None:
        """Let go of those that were put off, and count them."""
        put_off, self._put_off = self._put_off, []
        for concluded, settled_at in put_off:
            holdings = [item.holding for item in concluded]
            self._hand.drop([holding.fence for holding in holdings])
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
