"""One job, one run that counts: epochs rise, old runs are refused, nobody starts beside another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.checker.history import Body, History, Loan, Settle, by_id
from tests.chaos.checker.leases import Leases
from tests.chaos.checker.witness import Witness

TOLERANCE = 0.05
ENDS = frozenset({"done", "fail", "skip", "stop"})


def epoch_monotone(history: History) -> Iterator[Witness]:
    """Each loan of a job carries a higher epoch than every one before it."""
    for loans in by_id(history.loans).values():
        for first, second in pairwise(sorted(loans, key=lambda loan: loan.epoch)):
            if first.epoch == second.epoch:
                yield Witness(
                    "EpochMonotone", f"job {first.id} was lent twice as {first.epoch}", (first, second)
                )
            elif second.answered < first.called:
                says = f"job {first.id} was lent as {second.epoch} before {first.epoch}"
                yield Witness("EpochMonotone", says, (first, second))


def fencing(history: History) -> Iterator[Witness]:
    """Nothing that is written under an old epoch is taken."""
    loans = by_id(history.loans)
    unknown = {settle.mark for settle in history.settles if settle.answer == "unknown"}
    taken: Counter[object] = Counter()
    for settle in history.settles:
        if not settle.is_taken or settle.mark in unknown:
            continue
        taken[settle.mark] += 1
        history.judged["Fencing"] += 1
        newer = _newer(loans.get(settle.id, []), settle.epoch, settle.called)
        if newer is not None:
            yield Witness("Fencing", f"a verdict of epoch {settle.epoch} was taken late", (newer, settle))
        if taken[settle.mark] == 2:
            both = [other for other in history.settles if other.mark == settle.mark and other.is_taken]
            yield Witness("Fencing", f"two verdicts of one loan of {settle.id} were taken", tuple(both))
    for renewal in history.renewals:
        for mark in renewal.fences - renewal.lost if renewal.phase == "ok" else ():
            newer = _newer(loans.get(mark.id, []), mark.epoch, renewal.called)
            if newer is not None:
                says = f"epoch {mark.epoch} of {mark.id} was renewed late"
                yield Witness("Fencing", says, (newer, renewal))


def terminal_is_final(history: History) -> Iterator[Witness]:
    """What has ended stays as it ended, unless a person sends it again."""
    again = {asked.id for asked in history.asked if asked.kind == "retry" and asked.took_effect}
    last = {row.id: row for row in history.last}
    for row in history.first:
        later = last.get(row.id)
        if row.is_live or row.id in again or later is None:
            continue
        if (row.state, row.finished_at, row.reason) != (later.state, later.finished_at, later.reason):
            yield Witness("TerminalIsFinal", f"job {row.id} had ended as {row.state}", (row, later))
    loans = by_id(history.loans)
    for settle in history.settles:
        if settle.verdict in ENDS and settle.is_taken and settle.id not in again:
            newer = _newer(loans.get(settle.id, []), settle.epoch, None)
            if newer is not None and newer.called > settle.answered and not _goes_on(history, settle):
                yield Witness("TerminalIsFinal", f"job {settle.id} was lent after its end", (settle, newer))


def at_most_once_start(history: History) -> Iterator[Witness]:
    """A body that may start once starts once, whatever happens to it."""
    again = {asked.id for asked in history.asked if asked.kind == "retry" and asked.took_effect}
    for job, bodies in by_id(history.bodies).items():
        if history.task(bodies[0].task).delivery == "at_most_once" and len(bodies) > 1 and job not in again:
            yield Witness("AtMostOnceStart", f"job {job} was started {len(bodies)} times", tuple(bodies[:2]))


def no_overlap(history: History) -> Iterator[Witness]:
    """A job is lent again only after the loan before it was given up or its lease had run out."""
    leases = Leases(history)
    for loans in by_id(history.loans).values():
        for first, second in pairwise(sorted(loans, key=lambda loan: loan.epoch)):
            history.judged["NoOverlap"] += 1
            end = leases.certain_end(first, second.called)
            if leases.given_up(first) > second.answered and second.answered < end - TOLERANCE:
                says = (
                    f"job {first.id} was lent again {end - second.answered:.3f} s before its lease was over"
                )
                renewal = leases.renewal_before(first.worker, second.called)
                yield Witness("NoOverlap", says, (first, second, *([renewal] if renewal else [])))
    yield from _bodies_beside_each_other(history)


def self_fence(history: History) -> Iterator[Witness]:
    """A body that can be stopped does not outlive its lease, unless its process was frozen or killed."""
    renewals: dict[str, list[float]] = defaultdict(list)
    for renewal in history.renewals:
        if renewal.phase in ("ok", "busy"):
            renewals[renewal.worker].append(renewal.answered)  # what is not answered yet cannot be relied on
    for body in history.bodies:
        if not history.task(body.task).stoppable or _was_disturbed(history, body):
            continue
        history.judged["SelfFence"] += 1
        known = [answered for answered in renewals[body.worker] if answered <= body.last_sign]
        end = max(known, default=body.started) + history.terms.lease
        if known and body.last_sign > end + history.slack(end, body.last_sign):
            says = f"a body of {body.id} ran {body.last_sign - end:.3f} s beyond its lease"
            yield Witness("SelfFence", says, (body,))


def _bodies_beside_each_other(history: History) -> Iterator[Witness]:
    for bodies in by_id(history.bodies).values():
        for first, second in pairwise(sorted(bodies, key=lambda body: body.epoch)):
            if not history.task(first.task).stoppable or _was_disturbed(history, first):
                continue
            overlap = first.last_sign - second.started
            if overlap > history.slack(second.started, first.last_sign):
                yield Witness(
                    "NoOverlap", f"two bodies of {first.id} ran for {overlap:.3f} s", (first, second)
                )


def _was_disturbed(history: History, body: Body) -> bool:
    """Frozen, or its worker is dead: then it could not know, or nobody could tell it."""
    life = history.life(body.worker)
    if life is not None and life.died < body.last_sign:
        return True  # a child that outlives its worker is the business of NoLeak
    return any(
        fault.begun <= body.last_sign and fault.ended >= body.started for fault in history.frozen(body.worker)
    )


def _newer(loans: list[Loan], epoch: int, before: float | None) -> Loan | None:
    """A loan of a higher epoch that was certainly made before a moment."""
    for loan in loans:
        if loan.epoch > epoch and (before is None or loan.answered < before):
            return loan
    return None


def _goes_on(history: History, settle: Settle) -> bool:
    """A failed or finished cycle of a perpetual is no end."""
    return any(loan.id == settle.id and history.task(loan.task).perpetual for loan in history.loans)
