"""A pair of small histories made by hand, and the pieces that many of them are made of."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.checker.history import Asked, Body, History, Loan, Renewal, Row, Settle, TaskTerms


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence about the broken history, and the two histories."""

    invariant: str
    broken: str
    bad: History
    good: History


def beat(at: float, worker: str = "w0-1", **words: object) -> Renewal:
    return Renewal(worker=worker, called=at, answered=at + 0.01, **words)  # type: ignore[arg-type]


ASKED = Asked(op="a", task="quick", id="j", called=1.0, answered=1.1, generation=1)
LOAN = Loan(id="j", epoch=1, called=2.0, answered=2.1)
SECOND_LOAN = Loan(id="j", epoch=2, worker="w1-1", called=6.0, answered=6.1)
BODY = Body(id="j", epoch=1, op="a", started=2.2, last_sign=2.3, ended=2.3, outcome="ok")
DONE = Settle(id="j", epoch=1, called=2.4, answered=2.5)
ROW = Row(id="j")

PULSE = {"pulse": TaskTerms(perpetual=True, automatic=True)}
