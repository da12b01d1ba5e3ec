"""What claimed schedules settle with: their terms are read from the store, the ticker decides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from duly.app import App
from duly.job import Claim
from duly.kinds import periodic
from duly.schedules import OVERLAY, TERMS, merge
from duly.stores.contract import Page, Selection, Settlement
from duly.ticker import LastRun, take_turn


def take_turns(app: App, claims: Sequence[Claim]) -> list[Settlement]:
    """One settlement per claimed schedule: there is no body to run."""
    terms = app.store.run(app.store.records(TERMS))
    overlays = app.store.run(app.store.records(OVERLAY))
    return [_take_one(app, claim, terms, overlays) for claim in claims]


def _take_one(app: App, claim: Claim, terms: Mapping[str, str], overlays: Mapping[str, str]) -> Settlement:
    name = claim.key or ""
    if name not in terms:
        return take_turn(claim, None, app.tasks, app.clock.now(), LastRun())
    merged = merge(json.loads(terms[name]), json.loads(overlays.get(name, "{}")))
    schedule = periodic.read_terms(name, merged)
    last = _last_run(app, schedule, claim) if schedule.counts_from_end else LastRun()
    return take_turn(claim, schedule, app.tasks, app.clock.now(), last)


def _last_run(app: App, schedule: periodic.Schedule, claim: Claim) -> LastRun:
    key = periodic.tick_key(schedule.name, periodic.unpack_last_tick(claim.arguments))
    found = app.store.run(app.store.find(Selection(tasks=(schedule.task,), key=key), Page(1)))
    if not found:
        return LastRun()
    return LastRun(is_live=found[0].finished_at is None, ended_at=found[0].finished_at)
