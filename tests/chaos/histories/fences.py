"""Loans beside each other, and verdicts of old ones."""

from __future__ import annotations

from typing import Final

from tests.chaos.checker.history import (
    Asked,
    Body,
    Effect,
    Fault,
    HandBack,
    History,
    Loan,
    Mark,
    Row,
    Settle,
    TaskTerms,
)
from tests.chaos.histories.case import ASKED, BODY, DONE, LOAN, ROW, SECOND_LOAN, Case, beat

ONCE = {"once": TaskTerms(delivery="at_most_once")}
SLOW = {"slow": TaskTerms(stoppable=True)}


def two_loans(second: Loan, *more: HandBack | Settle) -> History:
    return History(
        loans=[LOAN, second],
        renewals=[beat(3.0)],
        settles=[one for one in more if isinstance(one, Settle)],
        hand_backs=[one for one in more if isinstance(one, HandBack)],
    )


FENCES: Final = [
    Case(
        "EpochMonotone",
        "one epoch lent twice",
        bad=History(loans=[LOAN, Loan(id="j", epoch=1, worker="w1-1", called=9.0, answered=9.1)]),
        good=History(loans=[LOAN, SECOND_LOAN]),
    ),
    Case(
        "EpochMonotone",
        "a higher epoch lent before a lower one",
        bad=History(loans=[LOAN, Loan(id="j", epoch=2, called=0.1, answered=0.2)]),
        good=History(loans=[LOAN, Loan(id="j", epoch=2, called=2.05, answered=9.0)]),
    ),
    Case(
        "Fencing",
        "the verdict of an old epoch taken after a newer loan",
        bad=History(loans=[LOAN, SECOND_LOAN], settles=[Settle(id="j", epoch=1, called=7.0, answered=7.1)]),
        good=History(
            loans=[LOAN, SECOND_LOAN],
            settles=[Settle(id="j", epoch=1, answer="lost", called=7.0, answered=7.1)],
        ),
    ),
    Case(
        "Fencing",
        "two verdicts of one loan, both taken",
        bad=History(
            loans=[LOAN],
            settles=[DONE, Settle(id="j", epoch=1, verdict="fail", called=3.0, answered=3.1)],
        ),
        good=History(
            loans=[LOAN],
            settles=[
                Settle(id="j", epoch=1, answer="unknown", called=2.4),
                Settle(id="j", epoch=1, called=3.0, answered=3.1),
            ],
        ),
    ),
    Case(
        "Fencing",
        "an old epoch renewed after a newer loan",
        bad=History(loans=[LOAN, SECOND_LOAN], renewals=[beat(7.0, fences=frozenset({Mark("j", 1)}))]),
        good=History(
            loans=[LOAN, SECOND_LOAN],
            renewals=[beat(7.0, fences=frozenset({Mark("j", 1)}), lost=frozenset({Mark("j", 1)}))],
        ),
    ),
    Case(
        "TerminalIsFinal",
        "an end that changed between two looks",
        bad=History(first=[Row(id="j", state="failed")], last=[ROW], bodies=[BODY], asked=[ASKED]),
        good=History(
            first=[Row(id="j", state="failed")],
            last=[ROW],
            bodies=[BODY],
            asked=[ASKED, Asked(op="again", kind="retry", id="j")],
        ),
    ),
    Case(
        "TerminalIsFinal",
        "a job lent after it was done",
        bad=History(loans=[LOAN, SECOND_LOAN], settles=[DONE]),
        good=History(
            loans=[LOAN, SECOND_LOAN],
            settles=[Settle(id="j", epoch=1, verdict="retry", called=2.4, answered=2.5)],
        ),
    ),
    Case(
        "AtMostOnceStart",
        "a body that may start once and started twice",
        bad=History(
            tasks=ONCE,
            asked=[ASKED],
            bodies=[Body(id="j", epoch=1, task="once", op="a"), Body(id="j", epoch=2, task="once", op="a")],
        ),
        good=History(tasks=ONCE, bodies=[Body(id="j", epoch=1, task="once", op="tick")]),
    ),
    Case(
        "NoOverlap",
        "a job lent again while its lease certainly held",
        bad=two_loans(Loan(id="j", epoch=2, worker="w1-1", called=4.0, answered=4.1)),
        good=two_loans(Loan(id="j", epoch=2, worker="w1-1", called=5.0, answered=5.1)),
    ),
    Case(
        "NoOverlap",
        "a job lent again although its worker had disowned only others",
        bad=two_loans(
            Loan(id="j", epoch=2, worker="w1-1", called=4.0, answered=4.1),
            HandBack(worker="w0-1", called=3.5, spares=frozenset({Mark("j", 1)})),
        ),
        good=two_loans(
            Loan(id="j", epoch=2, worker="w1-1", called=4.0, answered=4.1),
            HandBack(worker="w0-1", called=3.5),
        ),
    ),
    Case(
        "NoOverlap",
        "a job lent to its own worker again, just after a beat that had found it",
        bad=History(
            loans=[LOAN, Loan(id="j", epoch=2, called=6.0, answered=6.1)],
            renewals=[beat(1.9), beat(5.9, fences=frozenset({Mark("j", 1)}))],
        ),
        good=History(
            loans=[LOAN, Loan(id="j", epoch=2, called=6.0, answered=6.1)],
            renewals=[beat(1.9), beat(5.9, fences=frozenset({Mark("j", 1)}), lost=frozenset({Mark("j", 1)}))],
        ),
    ),
    Case(
        "NoOverlap",
        "two bodies of one job beside each other",
        bad=History(
            tasks=SLOW,
            bodies=[
                Body(id="j", epoch=1, task="slow", op="tick", started=2.0, last_sign=8.0),
                Body(id="j", epoch=2, task="slow", op="tick", started=4.0, last_sign=5.0),
            ],
        ),
        good=History(
            tasks=SLOW,
            bodies=[
                Body(id="j", epoch=1, task="slow", op="tick", started=2.0, last_sign=8.0),
                Body(id="j", epoch=2, task="slow", op="tick", started=4.0, last_sign=5.0),
            ],
            faults=[Fault(kind="freeze", target="w0-1", begun=3.0, ended=7.5)],
        ),
    ),
    Case(
        "SelfFence",
        "a body that went on after its lease could not be renewed",
        bad=History(
            tasks=SLOW,
            renewals=[beat(3.0)],
            bodies=[Body(id="j", epoch=1, task="slow", op="tick", started=2.0, last_sign=6.0)],
        ),
        good=History(
            tasks=SLOW,
            renewals=[beat(3.0), beat(4.5, phase="busy")],
            bodies=[Body(id="j", epoch=1, task="slow", op="tick", started=2.0, last_sign=6.0)],
        ),
    ),
]

EXACT = {"exact": TaskTerms(delivery="exactly_once")}

EFFECTS: Final = [
    Case(
        "ExactlyOnceEffect",
        "two effects of one job",
        bad=History(
            tasks=EXACT,
            last=[Row(id="j", task="exact")],
            bodies=[BODY],
            asked=[ASKED],
            effects=[Effect(token="j-0", op="a"), Effect(token="j-0", op="a", epoch=2)],
        ),
        good=History(
            tasks=EXACT,
            last=[Row(id="j", task="exact")],
            bodies=[BODY],
            asked=[ASKED],
            effects=[Effect(token="j-0", op="a")],
        ),
    ),
    Case(
        "ExactlyOnceEffect",
        "an effect of a job that failed",
        bad=History(
            tasks=EXACT,
            last=[Row(id="j", task="exact", state="failed")],
            effects=[Effect(token="j-0", op="a")],
        ),
        good=History(tasks=EXACT, last=[Row(id="j", task="exact", state="failed")], effects=[]),
    ),
    Case(
        "ExactlyOnceEffect",
        "a job that is done without its effect",
        bad=History(tasks=EXACT, last=[Row(id="j", task="exact")], bodies=[BODY], asked=[ASKED], effects=[]),
        good=History(tasks=EXACT, last=[Row(id="j", task="exact")], bodies=[BODY], asked=[ASKED]),
    ),
]
