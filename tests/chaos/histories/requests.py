"""Requests lost, invented, changed on the way."""

from __future__ import annotations

from typing import Final

from tests.chaos.checker.history import Asked, Body, Ending, History, Row, TaskTerms
from tests.chaos.histories.case import ASKED, BODY, ROW, Case

REQUESTS: Final = [
    Case(
        "NoLoss",
        "an acknowledged request whose job is gone",
        bad=History(asked=[ASKED]),
        good=History(asked=[Asked(op="a", id="j", is_acknowledged=False)]),
    ),
    Case(
        "NoLoss",
        "a job that never ended",
        bad=History(last=[Row(id="j", state="waiting")]),
        good=History(
            last=[Row(id="j", task="pulse", state="waiting", key="pulse")],
            tasks={"pulse": TaskTerms(perpetual=True, automatic=True)},
        ),
    ),
    Case(
        "NoLoss",
        "an old tick that never ran",
        bad=History(last=[Row(id="j", tick=5.0, due=5.0, state="waiting")], drained_wall=100.0),
        good=History(last=[Row(id="j", tick=95.0, due=95.0, state="waiting")], drained_wall=100.0),
    ),
    Case(
        "SuccessHasRun",
        "a job that is done without a body",
        bad=History(asked=[ASKED], last=[ROW]),
        good=History(asked=[ASKED], last=[ROW], bodies=[BODY]),
    ),
    Case(
        "DedupNoSwallow",
        "a request merged into a job that had started before",
        bad=History(
            asked=[ASKED, Asked(op="b", id="j", decision="kept", called=5.0, answered=5.1)],
            bodies=[BODY],
            last=[ROW],
        ),
        good=History(
            asked=[ASKED, Asked(op="b", id="j", decision="kept", called=1.5, answered=1.6)],
            bodies=[BODY],
            last=[ROW],
        ),
    ),
    Case(
        "NoPhantom",
        "a body nobody asked for",
        bad=History(bodies=[BODY]),
        good=History(bodies=[BODY, Body(id="t", epoch=1, op="tick 5")], asked=[ASKED], last=[ROW]),
    ),
    Case(
        "AtomicEnqueue",
        "a body of a transaction that was rolled back",
        bad=History(
            asked=[Asked(op="a", id="j", in_transaction=True)],
            endings=[Ending(op="a", commits=False, called=2.0)],
            bodies=[BODY],
        ),
        good=History(
            asked=[Asked(op="a", id="j", in_transaction=True)],
            endings=[Ending(op="a", commits=False, called=2.0)],
        ),
    ),
    Case(
        "AtomicEnqueue",
        "a body that started before the commit was called",
        bad=History(
            asked=[Asked(op="a", id="j", in_transaction=True)],
            endings=[Ending(op="a", commits=True, called=3.0)],
            bodies=[BODY],
            last=[ROW],
        ),
        good=History(
            asked=[Asked(op="a", id="j", in_transaction=True)],
            endings=[Ending(op="a", commits=True, called=2.0)],
            bodies=[BODY],
            last=[ROW],
        ),
    ),
    Case(
        "AtomicEnqueue",
        "a committed transaction without its job",
        bad=History(asked=[Asked(op="a", id="j", in_transaction=True)], orders=frozenset({"a"})),
        good=History(
            asked=[Asked(op="a", id="j", in_transaction=True)],
            endings=[Ending(op="a", commits=True, called=2.0, is_acknowledged=False)],
        ),
    ),
    Case(
        "Fidelity",
        "arguments that changed on the way",
        bad=History(
            asked=[Asked(op="a", id="j", digest="x")],
            bodies=[Body(id="j", epoch=1, op="a", digest="y", outcome="ok")],
            last=[ROW],
        ),
        good=History(
            asked=[Asked(op="a", id="j", digest="x")],
            bodies=[Body(id="j", epoch=1, op="a", digest="x", outcome="ok")],
            last=[ROW],
        ),
    ),
]
