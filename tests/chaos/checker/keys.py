"""Requests for one key: newer ones win, cancelled ones stay cancelled, guards hold, perpetuals live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tests.chaos.checker.history import Asked, Grip, History, by_id
from tests.chaos.checker.witness import Witness

TOLERANCE = 0.05
Key = tuple[str, str]


def gen_monotone(history: History) -> Iterator[Witness]:
    """Requests of one key that follow each other get rising generations."""
    for asks in _by_key(history.asked).values():
        made = [asked for asked in asks if asked.creates and asked.generation]
        for asked, newest in _with_last_answered(made):
            if newest is not None and asked.generation <= newest.generation:
                says = f"generation {asked.generation} came after {newest.generation}"
                yield Witness("GenMonotone", f"{asked.task} {asked.key}: {says}", (newest, asked))


def older_never_claimed(history: History) -> Iterator[Witness]:
    """After a replace is acknowledged, nothing older of its key is lent."""
    replaced_by = _replacements(history)
    for loan in history.loans:
        for asked in replaced_by.get((loan.task, loan.key), []) if loan.key is not None else ():
            if asked.generation > loan.generation and asked.answered < loan.called:
                says = f"generation {loan.generation} was lent after {asked.generation} had replaced it"
                yield Witness("OlderNeverClaimed", says, (asked, loan))
                break


def superseded_silent(history: History) -> Iterator[Witness]:
    """A run that was replaced can no longer settle: its retry or next cycle is dropped."""
    loans = {loan.mark: loan for loan in history.loans}
    unknown = {settle.mark for settle in history.settles if settle.answer == "unknown"}
    replaced_by = _replacements(history)
    for settle in history.settles:
        loan = loans.get(settle.mark)
        if loan is None or loan.key is None or not settle.is_taken or settle.mark in unknown:
            continue
        for asked in replaced_by.get((loan.task, loan.key), []):
            if asked.generation > loan.generation and asked.answered < settle.called:
                says = f"a run of generation {loan.generation} settled after {asked.generation} replaced it"
                yield Witness("SupersededSilent", says, (asked, loan, settle))
                break


def cancel_final(history: History) -> Iterator[Witness]:
    """What was cancelled is never lent again."""
    loans = by_id(history.loans)
    again = {asked.id for asked in history.asked if asked.kind == "retry"}
    for asked in history.asked:
        if asked.kind != "cancel" or not asked.is_acknowledged or not asked.took_effect or asked.id in again:
            continue
        history.judged["CancelFinal"] += 1
        for loan in loans.get(asked.id or "", []):
            if loan.called > asked.answered:
                yield Witness("CancelFinal", f"job {loan.id} was lent after its cancel", (asked, loan))
                break


def dedup_window(history: History) -> Iterator[Witness]:
    """Within a guard's window one request is taken; a trailing one is served after it."""
    for (task, key), asks in _by_key(history.asked).items():
        terms = history.task(task)
        if terms.unique_for is None:
            continue
        made = [asked for asked in asks if asked.creates]
        for first, second in pairwise(made) if not terms.trailing else ():
            apart = second.answered - first.called
            if apart < terms.unique_for - TOLERANCE and not history.stepped_between(
                first.called, second.answered
            ):
                says = f"{task} {key}: two were taken within {apart:.3f} s"
                yield Witness("DedupWindow", says, (first, second))
        if terms.trailing:
            yield from _unserved(history, task, key, asks)


def perpetual_alive(history: History) -> Iterator[Witness]:
    """At rest every perpetual key has exactly one job that waits or runs."""
    wanted = {(name, name) for name, terms in history.tasks.items() if terms.automatic}
    wanted |= {
        (asked.task, asked.key)
        for asked in history.asked
        if asked.key is not None and asked.is_acknowledged and history.task(asked.task).perpetual
    }
    for task, key in sorted(wanted):
        live = [row for row in history.last if row.is_live and (row.task, row.key) == (task, key)]
        if len(live) != 1:
            yield Witness("PerpetualAlive", f"{task} {key} has {len(live)} live jobs", tuple(live))


def lock_exclusive(history: History) -> Iterator[Witness]:
    """One holder at a time, and each with a larger token than the one before."""
    grips: dict[str, list[Grip]] = defaultdict(list)
    for grip in history.grips:
        grips[grip.name].append(grip)
    for name, held in grips.items():
        for first, second in pairwise(sorted(held, key=lambda grip: grip.token)):
            if second.held < first.asked:
                yield Witness("LockExclusive", f"the tokens of {name!r} do not rise", (first, second))
            end = min(first.asked + first.ttl, first.letting_go or first.held)
            if second.held < end - TOLERANCE:
                yield Witness("LockExclusive", f"two held {name!r} at once", (first, second))


def _unserved(history: History, task: str, key: str, asks: list[Asked]) -> Iterator[Witness]:
    last = max((body.started for body in history.bodies if (body.task, body.key) == (task, key)), default=0.0)
    for asked in asks:
        if asked.is_acknowledged and asked.called > last:
            yield Witness("DedupNoSwallow", f"{task} {key}: the last request was never served", (asked,))
            return


def _with_last_answered(asks: list[Asked]) -> Iterator[tuple[Asked, Asked | None]]:
    """Each request with the one of the highest generation that was answered before it was called."""
    answered = sorted(asks, key=lambda asked: asked.answered)
    newest: Asked | None = None
    index = 0
    for asked in sorted(asks, key=lambda asked: asked.called):
        while index < len(answered) and answered[index].answered < asked.called:
            if newest is None or answered[index].generation > newest.generation:
                newest = answered[index]
            index += 1
        yield asked, newest


def _replacements(history: History) -> dict[Key, list[Asked]]:
    return _by_key(
        asked
        for asked in history.asked
        if asked.replaces and asked.creates and asked.generation and not asked.in_transaction
    )


def _by_key(asks: Iterable[Asked]) -> dict[Key, list[Asked]]:
    found: dict[Key, list[Asked]] = defaultdict(list)
    for asked in asks:
        if asked.kind == "enqueue" and asked.key is not None:
            found[asked.task, asked.key].append(asked)
    return found
