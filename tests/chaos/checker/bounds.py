"""How soon: after a death, an outage, an order to stop. Widened by what the machine itself was late."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checker.history import NEVER, Fault, History, Life, Loan, by_id
from tests.chaos.checker.leases import Leases
from tests.chaos.checker.witness import Witness

OUTAGES = frozenset({"partition", "restart", "stall", "refuse", "fill_disk", "pause_server", "delay"})
RECONNECT = 5.0
UNDER_WAY = 1.0
"""A dead worker's last renewal may still be on its way."""
LOOKS = 4
LATE = 1.0
"""A look may pass by what others have in hand, and what is of little priority waits: only so many looks in so
many seconds, with no work in arrears, mean that nothing was ready."""
FAREWELL = 6.0
"""What a worker may take beyond its grace: to stop bodies, to settle, to close."""


def drain_stop(history: History) -> Iterator[Witness]:
    """After SIGTERM a worker starts nothing more, and ends."""
    for fault in history.faults:
        life = history.life(fault.target)
        if fault.kind != "terminate" or life is None:
            continue
        slack = history.slack(fault.begun, fault.begun + history.terms.grace + FAREWELL)
        late = [
            body
            for body in history.bodies
            if body.worker == fault.target and body.started > fault.ended + 1.0 + slack
        ]
        is_in_time = life.died <= fault.ended + history.terms.grace + FAREWELL + slack
        if is_in_time and not late:
            history.judged["DrainStop"] += life.code == 0
        elif not _is_blurred(history, fault):
            says = "started a body after" if late else "did not end after"
            yield Witness("DrainStop", f"{fault.target} {says} SIGTERM", (fault, life, *late[:1]))


def rescue_bound(history: History) -> Iterator[Witness]:
    """Once a dead worker's lease is over nobody is idle beside its job."""
    loans = by_id(history.loans)
    leases = Leases(history)
    rows = {row.id: row for row in history.last}
    idle = _idle_times(history)
    killed = {fault.target: fault for fault in history.faults if fault.kind == "kill"}
    for loan in history.loans:
        fault, row = killed.get(loan.worker), rows.get(loan.id)
        if fault is None or row is None or not _is_plain(history, loan) or leases.given_up(loan) < NEVER:
            continue
        later = [other for other in loans[loan.id] if other.epoch > loan.epoch]
        if not later and not row.is_live:
            continue  # the end of its lease was its own
        if later and min(later, key=lambda other: other.epoch).generation != loan.generation:
            continue  # so it was here, and somebody asked for another try long after
        over = fault.ended + history.terms.lease + UNDER_WAY + history.slack(fault.begun, fault.ended)
        again = min((other.called for other in later), default=history.drained_at)
        history.judged["RescueBound"] += 1
        index = bisect_right(idle, (over, NEVER))
        if index < len(idle) and idle[index][1] < again < NEVER:
            says = f"everybody was idle at {idle[index][0]:.3f} beside job {loan.id} of a dead worker"
            yield Witness("RescueBound", says, (loan, fault, *later[:1]))


def _idle_times(history: History) -> list[tuple[float, float]]:
    """Times in which looks found nothing, again and again, and what was lent had only just become due."""
    looks = sorted(history.looks)
    late = sorted(loan.called for loan in history.loans if loan.epoch == 1 and _lateness(loan) > LATE)
    idle: list[tuple[float, float]] = []
    for index, first in enumerate(looks):
        end = max(index + LOOKS - 1, bisect_left(looks, first + LATE))
        if end < len(looks) and bisect_left(late, first - LATE) == bisect_right(late, looks[end] + LATE):
            idle.append((first, looks[end]))
    return idle


def _lateness(loan: Loan) -> float:
    return 0.0 if loan.now is None else loan.now - loan.due


def reconnect_bound(history: History) -> Iterator[Witness]:
    """Once the store is back, every living worker talks to it within five seconds."""
    contacts: dict[str, list[float]] = defaultdict(list)
    for at, worker in sorted(history.contacts):
        contacts[worker].append(at)
    for fault in history.faults:
        until = fault.ended + RECONNECT + history.slack(fault.ended, fault.ended + RECONNECT)
        for life in history.lives if fault.kind in OUTAGES else ():
            times = contacts[life.name]
            index = bisect_left(times, fault.ended)
            if index < len(times) and times[index] <= until:
                history.judged["ReconnectBound"] += life.born < fault.begun
            elif index and _was_free(history, life, fault, until):
                says = f"{life.name} did not come back within {RECONNECT} s of {fault.kind}"
                yield Witness("ReconnectBound", says, (fault, life))


def _was_free(history: History, life: Life, fault: Fault, until: float) -> bool:
    """Alive and awake all the time, and nothing else in its way."""
    is_there = life.born < fault.begun and life.died > until
    others = [other for other in history.faults if other is not fault and _touches(other, fault.ended, until)]
    return is_there and not any(other.kind in OUTAGES or other.target == life.name for other in others)


def _is_plain(history: History, loan: Loan) -> bool:
    """Neither behind a key nor a limit, and allowed to run again."""
    terms = history.task(loan.task)
    is_free = loan.key is None and terms.concurrency is None and terms.rate is None
    return is_free and terms.delivery == "at_least_once" and loan.queue == "default"


def _is_blurred(history: History, fault: Fault) -> bool:
    """Frozen, killed, or cut off from the store in the meantime: nothing can be said about its end."""
    until = fault.ended + history.terms.grace + FAREWELL + 3
    others = [
        other for other in history.faults if other is not fault and _touches(other, fault.begun - 2, until)
    ]
    return any(other.target == fault.target or not other.target for other in others)


def _touches(fault: Fault, since: float, until: float) -> bool:
    return fault.begun <= until and fault.ended >= since
