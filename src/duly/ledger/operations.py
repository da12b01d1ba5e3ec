"""What can be done to receipts, each in one transaction, on any database.

Every operation may be repeated: one whose answer was lost finds what it wrote itself, by its mark or by
what it had seen. Nothing here holds a lock for longer than its own transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from duly.ledger.dialect import Dialect
from duly.ledger.terms import Terms
from duly.ledger.values import Due, Issued, Mark, ReceiptState, ReceiptView, Refusal, Refused
from duly.stores.drive import Operation, Steps
from duly.stores.tables.instants import span

A_MOMENT: Final = timedelta(seconds=1)
"""When to come back if somebody else is claiming or completing at this very moment."""


class Operations:
    """The operations of one ledger."""

    def __init__(self, dialect: Dialect, terms: Terms) -> None:
        self._say = dialect.say
        self._terms = terms

    # Issuing and looking.

    def issue(self, receipt_id: str, name: str, payload: str) -> Operation[Issued]:
        """A pending receipt, unless there is one of that id."""

        def steps() -> Steps[Issued]:
            created = yield self._say("issue", "issue", id=receipt_id, name=name, payload=payload)
            if created:
                wait = span(self._terms.lost_after)
                yield self._say("issue", "await_hand_over", id=receipt_id, wait=wait)
            return Issued(receipt_id, bool(created))

        return Operation("issue", steps)

    def look(self, receipt_id: str) -> Operation[ReceiptView | None]:
        """One receipt as it stands."""
        return Operation("look", lambda: self._look(receipt_id), writes=False)

    def _look(self, receipt_id: str) -> Steps[ReceiptView | None]:
        rows = yield self._say("look", "look", id=receipt_id)
        return ReceiptView.from_row(rows[0]) if rows else None

    def find(self, state: ReceiptState, after: str, limit: int) -> Operation[list[ReceiptView]]:
        """Receipts in a state, by id."""

        def steps() -> Steps[list[ReceiptView]]:
            rows = yield self._say("find", "find", state=str(state), after=after, limit=limit)
            return [ReceiptView.from_row(row) for row in rows]

        return Operation("find", steps, writes=False)

    def count(self) -> Operation[dict[ReceiptState, int]]:
        """How many receipts are in each state."""

        def steps() -> Steps[dict[ReceiptState, int]]:
            rows = yield self._say("find", "count")
            return dict.fromkeys(ReceiptState, 0) | {ReceiptState(state): number for state, number in rows}

        return Operation("count", steps, writes=False)

    # Claiming.

    def claim(self, receipt_id: str, mark: str, *, makes_as: str | None = None) -> Operation[Mark | Refused]:
        """Mark the receipt as ours for one lease. One that is missing is made if `makes_as` names it."""

        def steps() -> Steps[Mark | Refused]:
            seen = yield from self._look(receipt_id)
            if seen is None and makes_as is not None:
                yield self._say("claim", "make", id=receipt_id, name=makes_as)
                seen = yield from self._look(receipt_id)
            if seen is not None and seen.mark == mark:
                return Mark(receipt_id, seen.epoch, mark)  # ours: the answer to the commit was lost
            refused = refusal(seen)
            if refused is not None or seen is None:
                return refused or Refused(Refusal.MISSING)
            return (yield from self._take(receipt_id, seen.epoch, mark))

        return Operation("claim", steps)

    def _take(self, receipt_id: str, epoch: int, mark: str) -> Steps[Mark | Refused]:
        taken = yield self._say("claim", "take", id=receipt_id, epoch=epoch, mark=mark)
        if not taken:
            return Refused(Refusal.RUNNING, A_MOMENT)
        ((next_epoch, is_issued),) = taken
        lease = span(self._terms.lease)
        yield self._say("claim", "lease", id=receipt_id, mark=mark, lease=lease, is_issued=bool(is_issued))
        return Mark(receipt_id, next_epoch, mark)

    def renew(self, marks: Sequence[Mark]) -> Operation[frozenset[Mark]]:
        """Another lease for each; the answer is which of them are still in force."""

        def steps() -> Steps[frozenset[Mark]]:
            kept: set[Mark] = set()
            lease = span(self._terms.lease)
            for one in marks:
                if (yield self._say("renew", "renew", id=one.id, mark=one.mark, lease=lease)):
                    kept.add(one)
            return frozenset(kept)

        return Operation("renew", steps)

    def complete(self, one: Mark) -> Operation[bool]:
        """For the body's transaction: done, if the claim is still the one in force."""

        def steps() -> Steps[bool]:
            return bool((yield self._say("complete", "complete", **one._asdict())))

        return Operation("complete", steps)

    def release(self, one: Mark) -> Operation[bool]:
        """Give a claim back undone; False when it was completed or another took over."""

        def steps() -> Steps[bool]:
            fence = one._asdict()
            if (yield self._say("release", "unmake", **fence)):
                yield self._say("release", "forget", id=one.id, mark=one.mark)
                return True
            released = yield self._say("release", "release", **fence)
            if released:
                wait = span(self._terms.redeliver_after)
                yield self._say("release", "await_hand_over", id=one.id, mark=one.mark, wait=wait)
            return bool(released)

        return Operation("release", steps)

    # Sweeping.

    def due(self, after: tuple[int, str], limit: int) -> Operation[list[Due]]:
        """What should be handed over now, oldest first, beyond a place in that order."""

        def steps() -> Steps[list[Due]]:
            rows = yield self._say("sweep", "due", after=after[0], after_id=after[1], limit=limit)
            return [Due(*row) for row in rows]

        return Operation("due", steps, writes=False)

    def reserve(self, due: Due, wait: timedelta) -> Operation[int | None]:
        """The right to hand it over, given to one sweeper, for a while; None for the others."""

        def steps() -> Steps[int | None]:
            rows = yield self._say("sweep", "reserve", id=due.id, seen=due.next_at, wait=span(wait))
            return rows[0][0] if rows else None

        return Operation("reserve", steps)

    def reserve_first(self, receipt_id: str) -> Operation[int | None]:
        """The right to hand over what was never handed over nor claimed."""

        def steps() -> Steps[int | None]:
            wait = span(self._terms.lost_after)
            rows = yield self._say("sweep", "reserve_first", id=receipt_id, wait=wait)
            return rows[0][0] if rows else None

        return Operation("reserve_first", steps)

    def handed_over(self, receipt_id: str, reserved: int, wait: timedelta) -> Operation[None]:
        """A queue has taken it: count that, and come back later."""

        def steps() -> Steps[None]:
            yield self._say("sweep", "handed_over", id=receipt_id, reserved=reserved, wait=span(wait))

        return Operation("handed_over", steps)

    def exhaust(self, due: Due) -> Operation[bool]:
        """No more hand-overs: for a person to see."""

        def steps() -> Steps[bool]:
            exhausted = yield self._say("sweep", "exhaust", id=due.id, epoch=due.epoch)
            if exhausted:
                yield self._say("sweep", "rest", id=due.id, seen=due.next_at)
            return bool(exhausted)

        return Operation("exhaust", steps)

    def retry(self, receipt_id: str) -> Operation[bool]:
        """An operator's word: exhausted is pending again, with all its hand-overs."""

        def steps() -> Steps[bool]:
            revived = yield self._say("sweep", "retry", id=receipt_id)
            if revived:
                yield self._say("sweep", "hand_over_anew", id=receipt_id)
            return bool(revived)

        return Operation("retry", steps)

    def tidy(self, limit: int) -> Operation[int]:
        """Forget how to hand over what was completed."""

        def steps() -> Steps[int]:
            return len((yield self._say("sweep", "tidy", limit=limit)))

        return Operation("tidy", steps)

    def prune(self, kind: str, limit: int) -> Operation[int]:
        """Delete the oldest of what may go: `completed` or `made`."""

        def steps() -> Steps[int]:
            rows = yield self._say("prune", kind, keep=span(self._terms.keep_for), limit=limit)
            if rows:
                yield self._say("prune", "deliveries", ids=json.dumps([row[0] for row in rows]))
            return len(rows)

        return Operation("prune", steps)


def refusal(seen: ReceiptView | None) -> Refused | None:
    """Why a delivery of this receipt is not to be claimed, by what was seen; None when it may be tried."""
    if seen is None:
        return Refused(Refusal.MISSING)
    if seen.state is ReceiptState.COMPLETED:
        return Refused(Refusal.COMPLETED)
    return Refused(Refusal.RUNNING, seen.lease_left) if seen.is_claimed else None
