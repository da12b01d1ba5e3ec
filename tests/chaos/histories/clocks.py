"""Ticks and due times."""

from __future__ import annotations

from typing import Final

from tests.chaos.checker.history import Asked, History, Loan, Row
from tests.chaos.histories.case import BODY, ROW, Case

CLOCKS: Final = [
    Case(
        "OneTick",
        "two jobs for one tick",
        bad=History(
            last=[
                Row(id="i", task="ticked", tick=5.0, state="cancelled"),
                Row(id="j", task="ticked", tick=5.0, state="cancelled"),
            ]
        ),
        good=History(
            last=[
                Row(id="i", task="ticked", tick=5.0, state="cancelled"),
                Row(id="j", task="ticked", tick=6.0, state="cancelled"),
            ]
        ),
    ),
    Case(
        "TickComplete",
        "a tick that was left out",
        bad=History(
            last=[
                Row(id="i", task="ticked", tick=5.0, state="cancelled"),
                Row(id="j", task="ticked", tick=7.0, state="cancelled"),
            ]
        ),
        good=History(
            last=[Row(id=str(tick), task="ticked", tick=tick, state="cancelled") for tick in (5.0, 6.0, 7.0)]
        ),
    ),
    Case(
        "NeverEarly",
        "a job lent before it was due",
        bad=History(loans=[Loan(id="j", epoch=1, now=10.0, due=11.0)]),
        good=History(loans=[Loan(id="j", epoch=1, now=11.0, due=11.0)]),
    ),
    Case(
        "NeverEarly",
        "a body that did not wait as it was asked to",
        bad=History(asked=[Asked(op="a", id="j", called=1.0, delay=3.0)], bodies=[BODY], last=[ROW]),
        good=History(
            asked=[Asked(op="a", id="j", called=1.0, delay=3.0)], bodies=[BODY], last=[ROW], steps=[1.5]
        ),
    ),
]
