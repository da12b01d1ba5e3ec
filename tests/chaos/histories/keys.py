"""Requests for one key that got in each other's way."""

from __future__ import annotations

from typing import Final

from tests.chaos.checker.history import Asked, Body, Grip, History, Loan, Row, Settle, TaskTerms
from tests.chaos.histories.case import LOAN, PULSE, Case


def keyed(op: str, called: float, generation: int, **words: object) -> Asked:
    more = {"task": "queue_one", "key": "k", "id": f"job {op}", "decision": "created", **words}
    return Asked(op=op, called=called, answered=called + 0.1, generation=generation, **more)  # type: ignore[arg-type]


def keyed_loan(called: float, generation: int, epoch: int = 1) -> Loan:
    return Loan(
        id=f"g{generation}",
        epoch=epoch,
        task="queue_one",
        key="k",
        generation=generation,
        called=called,
        answered=called + 0.1,
    )


def rows(*asks: Asked) -> list[Row]:
    """What became of them: all cancelled, which asks for nothing more."""
    return [Row(id=asked.id or "", task=asked.task, key=asked.key, state="cancelled") for asked in asks]


GUARD = {"guarded": TaskTerms(unique_for=1.5), "trailing": TaskTerms(unique_for=1.0, trailing=True)}
REPLACE = keyed("b", 3.0, 7, replaces=True, decision="replaced")
GUARDED_TWICE = [keyed("a", 1.0, 1, task="guarded"), keyed("b", 2.0, 2, task="guarded")]
GUARDED_APART = [keyed("a", 1.0, 1, task="guarded"), keyed("b", 3.0, 2, task="guarded")]

KEYS: Final = [
    Case(
        "GenMonotone",
        "a later request with an older generation",
        bad=History(
            asked=[keyed("a", 1.0, 5), keyed("b", 2.0, 4)], last=rows(keyed("a", 1, 5), keyed("b", 2, 4))
        ),
        good=History(
            asked=[keyed("a", 1.0, 5), keyed("b", 1.05, 4)], last=rows(keyed("a", 1, 5), keyed("b", 2, 4))
        ),
    ),
    Case(
        "OlderNeverClaimed",
        "an older generation lent after a replace was acknowledged",
        bad=History(asked=[REPLACE], loans=[keyed_loan(4.0, 5)], last=rows(REPLACE)),
        good=History(asked=[REPLACE], loans=[keyed_loan(3.05, 5)], last=rows(REPLACE)),
    ),
    Case(
        "SupersededSilent",
        "a replaced run whose verdict was taken",
        bad=History(
            asked=[REPLACE],
            loans=[keyed_loan(2.0, 5)],
            settles=[Settle(id="g5", epoch=1, verdict="again", called=4.0, answered=4.1)],
            last=rows(REPLACE),
        ),
        good=History(
            asked=[REPLACE],
            loans=[keyed_loan(2.0, 5)],
            settles=[
                Settle(id="g5", epoch=1, verdict="again", answer="superseded", called=4.0, answered=4.1)
            ],
            last=rows(REPLACE),
        ),
    ),
    Case(
        "CancelFinal",
        "a job lent after its cancel was acknowledged",
        bad=History(asked=[Asked(op="c", kind="cancel", id="j", called=1.0, answered=1.1)], loans=[LOAN]),
        good=History(
            asked=[Asked(op="c", kind="cancel", id="j", called=1.0, answered=1.1, took_effect=False)],
            loans=[LOAN],
        ),
    ),
    Case(
        "DedupWindow",
        "two requests taken in one window",
        bad=History(tasks=GUARD, asked=GUARDED_TWICE, last=rows(*GUARDED_TWICE)),
        good=History(tasks=GUARD, asked=GUARDED_APART, last=rows(*GUARDED_APART)),
    ),
    Case(
        "DedupNoSwallow",
        "a trailing request that was never served",
        bad=History(
            tasks=GUARD,
            asked=[keyed("a", 1.0, 1, task="trailing")],
            last=rows(keyed("a", 1.0, 1, task="trailing")),
        ),
        good=History(
            tasks=GUARD,
            asked=[keyed("a", 1.0, 1, task="trailing")],
            last=rows(keyed("a", 1.0, 1, task="trailing")),
            bodies=[Body(id="job a", epoch=1, task="trailing", key="k", op="a", started=2.0)],
        ),
    ),
    Case(
        "PerpetualAlive",
        "a perpetual without a live job",
        bad=History(tasks=PULSE),
        good=History(tasks=PULSE, last=[Row(id="j", task="pulse", key="pulse", state="waiting")]),
    ),
    Case(
        "PerpetualAlive",
        "a perpetual with two live jobs",
        bad=History(
            tasks=PULSE,
            last=[
                Row(id="i", task="pulse", key="pulse", state="waiting"),
                Row(id="j", task="pulse", key="pulse", state="waiting"),
            ],
        ),
        good=History(
            tasks=PULSE,
            last=[
                Row(id="i", task="pulse", key="pulse", state="cancelled"),
                Row(id="j", task="pulse", key="pulse", state="waiting"),
            ],
        ),
    ),
    Case(
        "LockExclusive",
        "two holders at once",
        bad=History(
            grips=[
                Grip(name="till", token=1, asked=1.0, held=1.1, letting_go=2.0),
                Grip(name="till", token=2, asked=1.2, held=1.3, letting_go=2.1),
            ]
        ),
        good=History(
            grips=[
                Grip(name="till", token=1, asked=1.0, held=1.1, letting_go=9.0),
                Grip(name="till", token=2, asked=1.2, held=3.1, letting_go=3.2),
            ]
        ),
    ),
    Case(
        "LockExclusive",
        "a token that fell",
        bad=History(
            grips=[
                Grip(name="till", token=2, asked=1.0, held=1.1, letting_go=1.2),
                Grip(name="till", token=1, asked=5.0, held=5.1, letting_go=5.2),
            ]
        ),
        good=History(grips=[Grip(name="till", token=1, asked=5.0, held=5.1, letting_go=5.2)]),
    ),
]
