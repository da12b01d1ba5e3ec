"""What is limited: attempts, deaths, seconds, runs at a time, starts in a while."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.checker.history import History, Loan, by_id
from tests.chaos.checker.leases import Leases
from tests.chaos.checker.witness import Witness

TOLERANCE = 0.05
CRASH_CAP = 3
TRANSIENT = frozenset({"CloudError"})
"""The one exception that the tasks' policies name."""
FATAL = ("poison", "poison_worker")


def retry_policy(history: History) -> Iterator[Witness]:
    """Never more attempts than granted, only for what is worth another, and not before the wait is over."""
    for body in history.bodies:
        attempts = history.task(body.task).attempts
        if attempts is not None and body.attempt > attempts:
            yield Witness("RetryPolicy", f"attempt {body.attempt} of {attempts}", (body,))
    ran = {body.mark: body for body in history.bodies}
    loans = by_id(history.loans)
    moved = {asked.id for asked in history.asked if asked.kind != "enqueue"}
    for settle in history.settles:
        if settle.verdict != "retry" or not settle.is_taken:
            continue
        failed = ran.get(settle.mark)
        if failed is not None and failed.outcome is not None and failed.outcome not in TRANSIENT:
            yield Witness("RetryPolicy", f"{failed.outcome} is not worth another try", (failed, settle))
        later = [loan for loan in loans.get(settle.id, []) if loan.epoch > settle.epoch]
        if later and settle.after and settle.id not in moved and later[0].key is None:
            yield from _waited(history, settle.called, settle.after, min(later, key=_epoch))


def _waited(history: History, since: float, wait: float, loan: Loan) -> Iterator[Witness]:
    if loan.answered < since + wait - TOLERANCE and not history.stepped_between(since, loan.answered):
        says = f"job {loan.id} was lent {loan.answered - since:.3f} s after a failure, not {wait} s"
        yield Witness("RetryPolicy", says, (loan,))


def _epoch(loan: Loan) -> int:
    return loan.epoch


def crash_cap(history: History) -> Iterator[Witness]:
    """A job that kills its process is put aside after three deaths, and no other is."""
    counted = Counter(settle.id for settle in history.settles if settle.is_counted and settle.is_taken)
    again = {asked.id for asked in history.asked if asked.kind == "retry" and asked.took_effect}
    lent = Counter(loan.id for loan in history.loans)
    ended = Counter(
        settle.id for settle in history.settles if settle.is_taken and settle.verdict not in ("crash", "fail")
    )
    for row in history.last:
        if counted[row.id] > CRASH_CAP and row.id not in again and not history.task(row.task).perpetual:
            yield Witness("CrashCap", f"job {row.id} died {counted[row.id]} times", (row,))
        if row.task in FATAL and row.state not in ("failed", "cancelled"):
            yield Witness("CrashCap", f"job {row.id} kills its process and is {row.state}", (row,))
        if (
            row.reason == "crashed too often"
            and row.tick is None
            and lent[row.id] - ended[row.id] < CRASH_CAP
        ):
            yield Witness("CrashCap", f"job {row.id} was put aside after fewer deaths", (row,))


def hard_limit(history: History) -> Iterator[Witness]:
    """No body lives on two seconds after its hard limit."""
    for body in history.bodies:
        limit = history.task(body.task).hard_limit
        if limit is None or _is_excused(history, body.worker, body.started, body.last_sign):
            continue
        history.judged["HardLimit"] += 1
        end = body.started + limit + 2.0
        if body.last_sign > end + history.slack(body.started, body.last_sign):
            yield Witness("HardLimit", f"{body.last_sign - body.started:.1f} s, limit {limit} s", (body,))


def _is_excused(history: History, worker: str, since: float, until: float) -> bool:
    """A frozen worker ends nobody, and a dead one's children are the business of NoLeak."""
    life = history.life(worker)
    if life is not None and life.died < until:
        return True
    return any(fault.begun <= until and fault.ended >= since for fault in history.frozen(worker))


def concurrency_limit(history: History) -> Iterator[Witness]:
    """Never more loans that certainly hold than the task allows."""
    leases = Leases(history)
    for task, terms in history.tasks.items():
        if terms.concurrency is None:
            continue
        spans = [(leases.span(loan), loan) for loan in history.loans if loan.task == task]
        spans = [(span, loan) for span, loan in spans if span[1] > span[0]]
        for (start, _), loan in spans:
            beside = [other for (begin, end), other in spans if begin <= start < end - TOLERANCE]
            if len(beside) > terms.concurrency:
                says = f"{len(beside)} runs of {task} at once, {terms.concurrency} allowed"
                yield Witness("ConcurrencyLimit", says, tuple(beside))
                del loan
                break


def rate_limit(history: History) -> Iterator[Witness]:
    """Never more starts in a window than the rate allows."""
    by_task: dict[str, list[Loan]] = defaultdict(list)
    for loan in history.loans:
        by_task[loan.task].append(loan)
    for task, loans in by_task.items():
        rate = history.task(task).rate
        if rate is None:
            continue
        starts, per = rate
        loans.sort(key=lambda loan: loan.called)
        for first, last in zip(loans, loans[starts:], strict=False):
            apart = last.answered - first.called
            if apart < per - TOLERANCE and not history.stepped_between(first.called - per, last.answered):
                says = f"{starts + 1} starts of {task} within {apart:.3f} s, {starts} allowed in {per} s"
                yield Witness("RateLimit", says, (first, last))
                break
