"""Verdicts that need no decision, bound together by what they write.

`conclude` is asked what each means when nothing happened meanwhile; the statement then settles only those
loans of which that is true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple

from duly.lifecycle import (
    GOES_ON,
    HISTORY_LINES,
    MOVES,
    RUNNING,
    Crash,
    Done,
    Standing,
    Stop,
    Verdict,
    conclude,
    error_of,
    fingerprint_of,
    wait_of,
)
from duly.stores.contract import Settlement
from duly.stores.postgres.operations.arrays import integers, stored, stored_or_none, words
from duly.stores.postgres.operations.fences import Loan, parted, seed_of
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import span, stamp, stamp_or_none

ALONE: Final = Standing()


class Item(NamedTuple):
    """A settlement, its place in the batch, and the loan it ends."""

    place: int
    settlement: Settlement
    loan: Loan


@dataclass(frozen=True, slots=True)
class Sheaf:
    """Settlements for one statement."""

    name: str
    places: dict[int, int]
    """Where in the batch each generation came from."""
    parameters: dict[str, Any]


def sheaves(
    world: World,
    settlements: Sequence[Settlement],
    loans: Sequence[Loan | None],
    *,
    but_for: Collection[int],
) -> Iterable[Sheaf]:
    """Everything that may be settled on sight. Of two for one job only the first: the other must see it."""
    bare: list[Item] = []
    ended: list[Item] = []
    going_on: list[Item] = []
    seen: set[int] = set()
    for place, (settlement, loan) in enumerate(zip(settlements, loans, strict=True)):
        if loan is None or loan.generation in seen:
            continue
        seen.add(loan.generation)
        if place in but_for:
            continue
        if _is_bare(settlement):
            bare.append(Item(place, settlement, loan))
        elif not _needs_care(settlement, loan):
            goes_on = conclude(settlement.verdict, ALONE).event in GOES_ON
            (going_on if goes_on else ended).append(Item(place, settlement, loan))
    made = [(_bare, bare), (_ended, ended), (_going_on, going_on)]
    return [make(world, items) for make, items in made if items]


class Bare(NamedTuple):
    """Loans that are done with nothing to keep, column by column, as they are written."""

    generations: list[str]
    epochs: list[int]
    seeds: list[str]
    started: list[str]


def bare(settlements: Sequence[Settlement], _: int) -> Bare | None:
    """The loans of a batch; None if one has something to keep.

    In one sweep, and without reading numbers only to write them again: it is done for every job.
    """
    fences, verdicts, started, then, *_others = zip(*settlements, strict=True)
    _ids, epochs, nonces = zip(*fences, strict=True)
    commons, generations = parted(nonces)
    seeds = {common: str(seed_of(common)) for common in set(commons)}
    if any(then) or not all(map(_keeps_nothing, _distinct(verdicts))) or str(None) in seeds.values():
        return None
    moments = {moment: _written(moment) for moment in set(started)}  # bodies start in bursts
    return Bare(
        generations,
        list(epochs),
        [seeds[common] for common in commons],
        list(map(moments.__getitem__, started)),
    )


def bare_fences(parts: Sequence[Bare | None]) -> dict[str, str] | None:
    """All of them as arrays; None if there is any other among them, or one of them twice."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    generations = [*chain.from_iterable([part.generations for part in known])]
    if len(set(generations)) < len(generations) or not "".join(generations or "0").isdecimal():
        return None
    return {
        "generations": _array(generations),
        "epochs": _once([*chain.from_iterable([part.epochs for part in known])]),
        "seeds": _once([*chain.from_iterable([part.seeds for part in known])]),
        "started": _array([*chain.from_iterable([part.started for part in known])]),
    }


def _written(moment: datetime | None) -> str:
    return "null" if moment is None else str(stamp(moment))


def _distinct(verdicts: Sequence[Verdict]) -> Iterable[Verdict]:
    """Most bodies end with the very same one."""
    return dict(zip(map(id, verdicts), verdicts, strict=True)).values()


def _once(values: Sequence[int] | Sequence[str]) -> str:
    """An array of numbers; what all of them are is said once."""
    return _array(map(str, values[:1] if len(set(values)) == 1 else values))


def _array(words: Iterable[str]) -> str:
    return "{" + ",".join(words) + "}"


def _is_bare(settlement: Settlement) -> bool:
    return not settlement.then and _keeps_nothing(settlement.verdict)


def _keeps_nothing(verdict: Verdict) -> bool:
    return type(verdict) is Done and verdict.result is None and verdict.keep_result is None


def _needs_care(settlement: Settlement, loan: Loan) -> bool:
    verdict = settlement.verdict
    leaves_a_marker = isinstance(verdict, Stop) and loan.has_serial
    return isinstance(verdict, Crash) or leaves_a_marker


def _sheaf(name: str, world: World, items: Sequence[Item], written: dict[str, Any]) -> Sheaf:
    fences = {
        "generations": integers([item.loan.generation for item in items]),
        "epochs": integers([item.loan.epoch for item in items]),
        "seeds": integers([item.loan.seed for item in items]),
        "started": integers([stamp_or_none(item.settlement.started_at) for item in items]),
        "now": world.now,
    }
    return Sheaf(name, {item.loan.generation: item.place for item in items}, fences | written)


def _bare(world: World, items: Sequence[Item]) -> Sheaf:
    """Done, with nothing to keep."""
    return _sheaf("end_bare", world, items, {})


def _ended(world: World, items: Sequence[Item]) -> Sheaf:
    conclusions = [conclude(item.settlement.verdict, ALONE) for item in items]
    results = [_result(item.settlement) for item in items]
    written = _errors(items) | {
        "events": words([conclusion.event for conclusion in conclusions]),
        "states": words([MOVES[RUNNING, conclusion.event] for conclusion in conclusions]),
        "reasons": words([stored(conclusion.reason) for conclusion in conclusions]),
        "results": words([stored_or_none(result) for result, _ in results]),
        "result_until": integers([None if not kept else world.now + span(kept) for _, kept in results]),
    }
    return _sheaf("end", world, items, written)


def _errors(items: Sequence[Item]) -> dict[str, str]:
    errors = [error_of(item.settlement.verdict) for item in items]
    return {
        "errors": words([stored_or_none(error) for error in errors]),
        "fingerprints": words([fingerprint_of(item.settlement.verdict) for item in items]),
    }


def _result(settlement: Settlement) -> tuple[str | None, timedelta | None]:
    verdict = settlement.verdict
    return (verdict.result, verdict.keep_result) if isinstance(verdict, Done) else (None, None)


def _going_on(world: World, items: Sequence[Item]) -> Sheaf:
    conclusions = [conclude(item.settlement.verdict, ALONE) for item in items]
    now = world.moment.instant
    written = _errors(items) | {
        "events": words([conclusion.event for conclusion in conclusions]),
        "notes": words([stored(conclusion.reason) for conclusion in conclusions]),
        "lines": HISTORY_LINES,
        "ready": integers([stamp(wait_of(item.settlement.verdict, now)) for item in items]),
        "arguments": words([stored_or_none(item.settlement.arguments or None) for item in items]),
    }
    return _sheaf("go_on", world, items, written)
