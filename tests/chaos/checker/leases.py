"""How long a loan was certainly valid, and when it may have ended: what several checks stand on."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from tests.chaos.checker.history import NEVER, HandBack, History, Loan, Mark, Renewal, Settle


class Leases:
    """Renewals, settlements and hand-backs, by what they are about."""

    def __init__(self, history: History) -> None:
        self._lease = history.terms.lease
        self._renewals: dict[str, list[Renewal]] = defaultdict(list)
        for renewal in history.renewals:
            if renewal.phase == "ok":
                self._renewals[renewal.worker].append(renewal)
        for renewals in self._renewals.values():
            renewals.sort(key=lambda renewal: renewal.answered)
        self.settles: dict[Mark, list[Settle]] = defaultdict(list)
        for settle in history.settles:
            self.settles[settle.mark].append(settle)
        self._hand_backs: dict[str, list[HandBack]] = defaultdict(list)
        for hand_back in history.hand_backs:
            self._hand_backs[hand_back.worker].append(hand_back)

    def renewal_before(self, worker: str, moment: float) -> Renewal | None:
        """The last one that was answered before a moment, and so had certainly happened."""
        renewals = self._renewals.get(worker, [])
        index = bisect_right(renewals, moment, key=lambda renewal: renewal.answered)
        return renewals[index - 1] if index else None

    def given_up(self, loan: Loan) -> float:
        """The first moment at which the worker itself may have ended the loan; NEVER if it did not."""
        moments = [settle.called for settle in self.settles.get(loan.mark, [])]
        moments += [
            hand_back.called
            for hand_back in self._hand_backs.get(loan.worker, [])
            if hand_back.called >= loan.called and loan.mark not in hand_back.spares
        ]
        return min(moments, default=NEVER)

    def certain_end(self, loan: Loan, before: float) -> float:
        """Until when the loan certainly held, by what its worker had been told before a moment."""
        renewal = self.renewal_before(loan.worker, before)
        while renewal is not None and loan.mark in renewal.lost:  # that one told it that the loan had ended
            renewal = self.renewal_before(loan.worker, renewal.called)
        lease = renewal.called + self._lease if renewal is not None else loan.answered
        return min(lease, self.given_up(loan))

    def span(self, loan: Loan) -> tuple[float, float]:
        """From when to when the loan certainly held, over all that is known; may be empty."""
        end, moment = loan.answered, loan.answered
        given_up = self.given_up(loan)
        for renewal in self._renewals.get(loan.worker, []):
            if renewal.called + self._lease <= moment and renewal.called > moment:
                break  # there was a gap in which it may have been lost
            if renewal.called >= given_up or loan.mark in renewal.lost:
                break
            end = max(end, renewal.called + self._lease)
        return loan.answered, min(end, given_up)
