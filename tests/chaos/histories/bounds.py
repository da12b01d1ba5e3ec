"""Things that took too long, or were left behind."""

from __future__ import annotations

from typing import Final

from tests.chaos.checker.history import Body, Fault, History, Life, Loan, Orphan, Row, Vitals
from tests.chaos.histories.case import LOAN, PULSE, Case

TERM = Fault(kind="terminate", target="w0-1", begun=5.0, ended=5.0)
KILL = Fault(kind="kill", target="w0-1", begun=3.0, ended=3.0)
LOOKS = [number / 4 for number in range(160)]
OUTAGE = Fault(kind="restart", begun=3.0, ended=5.0)

BOUNDS: Final = [
    Case(
        "DrainStop",
        "a body started long after SIGTERM",
        bad=History(
            faults=[TERM],
            lives=[Life(name="w0-1", died=7.0)],
            bodies=[Body(id="j", epoch=1, op="tick", started=6.9, last_sign=6.9)],
        ),
        good=History(
            faults=[TERM],
            lives=[Life(name="w0-1", died=7.0)],
            bodies=[Body(id="j", epoch=1, op="tick", started=5.5, last_sign=6.9)],
        ),
    ),
    Case(
        "DrainStop",
        "a worker that did not end after SIGTERM",
        bad=History(faults=[TERM], lives=[Life(name="w0-1", died=25.0)]),
        good=History(
            faults=[TERM, Fault(kind="stall", begun=5.5, ended=9.0)], lives=[Life(name="w0-1", died=25.0)]
        ),
    ),
    Case(
        "RescueBound",
        "a dead worker's job that nobody took while others were at work",
        bad=History(
            faults=[KILL],
            loans=[LOAN, Loan(id="j", epoch=2, worker="w1-1", called=20.0, answered=20.1)],
            looks=LOOKS,
            last=[Row(id="j", state="skipped")],
        ),
        good=History(
            faults=[KILL],
            loans=[LOAN, Loan(id="j", epoch=2, worker="w1-1", called=7.0, answered=7.1)],
            looks=LOOKS,
            last=[Row(id="j", state="skipped")],
        ),
    ),
    Case(
        "RescueBound",
        "a dead worker's job that nobody took, not even when it was asked for again",
        bad=History(
            faults=[KILL],
            loans=[LOAN, Loan(id="j", epoch=2, worker="w1-1", called=20.0, answered=20.1)],
            looks=LOOKS,
            last=[Row(id="j", state="done")],
        ),
        good=History(
            faults=[KILL],
            loans=[LOAN, Loan(id="j", epoch=2, worker="w1-1", called=20.0, answered=20.1, generation=99)],
            looks=LOOKS,
            last=[Row(id="j", state="done")],
        ),
    ),
    Case(
        "ReconnectBound",
        "a living worker that did not come back after an outage",
        bad=History(faults=[OUTAGE], lives=[Life(name="w0-1")], contacts=[(1.0, "w0-1"), (20.0, "w0-1")]),
        good=History(faults=[OUTAGE], lives=[Life(name="w0-1")], contacts=[(1.0, "w0-1"), (8.0, "w0-1")]),
    ),
]

LEAKS: Final = [
    Case(
        "NoLeak",
        "a process that outlived its worker",
        bad=History(orphans=[Orphan(worker="w0-1", pid=7, since=1.0, seen=5.0)]),
        good=History(orphans=[Orphan(worker="w0-1", pid=7, since=1.0, seen=2.0)]),
    ),
    Case(
        "NoLeak",
        "a worker that hoards threads",
        bad=History(vitals=[Vitals(worker="w0-1", descriptors=20, threads=500)]),
        good=History(vitals=[Vitals(worker="w0-1", descriptors=20, threads=20)]),
    ),
    Case(
        "NoLeak",
        "a job on loan to nobody",
        bad=History(tasks=PULSE, last=[Row(id="j", task="pulse", key="pulse", state="running")]),
        good=History(
            tasks=PULSE,
            last=[Row(id="j", task="pulse", key="pulse", state="running")],
            lives=[Life(name="w0-1", died=9.0, code=-9)],
            drained_at=8.0,
        ),
    ),
    Case(
        "NoCollapse",
        "a worker that fell over",
        bad=History(lives=[Life(name="w0-1", died=9.0, code=70)]),
        good=History(lives=[Life(name="w0-1", died=9.0, code=-9)]),
    ),
]
