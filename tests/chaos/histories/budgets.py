"""Limits that were passed."""

from __future__ import annotations

from typing import Final

from tests.chaos.checker.history import Body, Fault, History, Loan, Row, Settle, TaskTerms
from tests.chaos.histories.case import ASKED, BODY, LOAN, Case, beat

RETRIES = {"flaky": TaskTerms(attempts=4)}


def tried(outcome: str, wait: float) -> History:
    return History(
        tasks=RETRIES,
        bodies=[Body(id="j", epoch=1, task="flaky", op="tick", started=2.2, outcome=outcome)],
        settles=[Settle(id="j", epoch=1, verdict="retry", after=0.3, called=2.4, answered=2.5)],
        loans=[LOAN, Loan(id="j", epoch=2, called=2.4 + wait, answered=2.4 + wait)],
    )


def deaths(count: int, state: str = "failed", task: str = "poison") -> History:
    return History(
        loans=[Loan(id="j", epoch=epoch + 1, called=epoch, answered=epoch + 0.1) for epoch in range(count)],
        settles=[
            Settle(
                id="j",
                epoch=epoch + 1,
                verdict="crash",
                is_counted=True,
                called=epoch + 0.2,
                answered=epoch + 0.3,
            )
            for epoch in range(count)
        ],
        last=[Row(id="j", task=task, state=state, reason="crashed too often")],
    )


def limited(*starts: float) -> History:
    return History(
        tasks={"narrow": TaskTerms(concurrency=2)},
        renewals=[beat(at) for at in (0.5, 2.0, 3.5)],
        loans=[
            Loan(id=f"j{number}", epoch=1, task="narrow", called=at, answered=at)
            for number, at in enumerate(starts)
        ],
        settles=[
            Settle(id=f"j{number}", epoch=1, called=at + 1.0, answered=at + 1.1)
            for number, at in enumerate(starts)
        ],
    )


def paced(*starts: float) -> History:
    return History(
        tasks={"paced": TaskTerms(rate=(2, 1.0))},
        loans=[
            Loan(id=f"j{number}", epoch=1, task="paced", called=at, answered=at)
            for number, at in enumerate(starts)
        ],
    )


STUBBORN = {"stubborn": TaskTerms(hard_limit=0.7)}
UNBOUND = Body(id="j", epoch=1, task="stubborn", op="tick", started=1.0, last_sign=9.0)

BUDGETS: Final = [
    Case(
        "RetryPolicy",
        "an attempt too many",
        bad=History(tasks=RETRIES, bodies=[Body(id="j", epoch=5, task="flaky", op="tick", attempt=5)]),
        good=History(tasks=RETRIES, bodies=[Body(id="j", epoch=9, task="flaky", op="tick", attempt=4)]),
    ),
    Case(
        "RetryPolicy",
        "another try of what is not worth it",
        bad=tried("ValueError", 1.0),
        good=tried("CloudError", 1.0),
    ),
    Case(
        "RetryPolicy",
        "another try before its wait was over",
        bad=tried("CloudError", 0.1),
        good=tried("CloudError", 0.3),
    ),
    Case("CrashCap", "a fourth death", bad=deaths(4), good=deaths(3)),
    Case(
        "CrashCap",
        "a killer that is done",
        bad=History(last=[Row(id="j", task="poison")], bodies=[BODY], asked=[ASKED]),
        good=History(last=[Row(id="j", task="poison", state="cancelled")]),
    ),
    Case("CrashCap", "an innocent put aside", bad=deaths(2, task="quick"), good=deaths(3, task="quick")),
    Case(
        "HardLimit",
        "a body that outlived its hard limit",
        bad=History(tasks=STUBBORN, bodies=[UNBOUND]),
        good=History(
            tasks=STUBBORN,
            bodies=[UNBOUND],
            faults=[Fault(kind="freeze_long", target="w0-1", begun=1.2, ended=8.8)],
        ),
    ),
    Case("ConcurrencyLimit", "a run too many", bad=limited(1.0, 1.1, 1.2), good=limited(1.0, 1.1, 2.2)),
    Case("RateLimit", "a start too many", bad=paced(1.0, 1.1, 1.2), good=paced(1.0, 1.1, 2.2)),
]
