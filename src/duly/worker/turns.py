"""What claimed schedules settle with: their terms are read from the store, the ticker decides."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime

from duly.app import App
from duly.errors import DefinitionError, StoreError
from duly.job import Claim
from duly.kinds import periodic
from duly.lifecycle import Release
from duly.schedules import OVERLAY, TERMS, merge
from duly.stores.contract import Claimed, Page, Selection, Settlement
from duly.ticker import UNREADABLE, LastRun, take_turn

log = logging.getLogger("duly.worker")


def take_turns(app: App, claimed: Claimed) -> list[Settlement]:
    """One settlement per claimed schedule, by the clock of the store that found them due."""
    now = claimed.now or app.clock.now()
    terms = app.store.run(app.store.records(TERMS))
    overlays = app.store.run(app.store.records(OVERLAY))
    schedules = [claim for claim in claimed.claims if claim.queue == periodic.QUEUE]
    return [_take_turn(app, claim, terms, overlays, now) for claim in schedules]


def _take_turn(
    app: App, claim: Claim, terms: Mapping[str, str], overlays: Mapping[str, str], now: datetime
) -> Settlement:
    """A schedule that cannot be read costs nobody but itself, and comes back for a worker that can."""
    try:
        schedule = _schedule(claim.key or "", terms, overlays)
        return take_turn(claim, schedule, app.tasks, now, _last_run(app, schedule, claim))
    except StoreError:
        raise
    except Exception as error:
        log.exception("schedule %r cannot take its turn", claim.key)
        return Settlement(claim.fence, Release(UNREADABLE, f"it cannot be read here: {error!r}"))


def _schedule(name: str, terms: Mapping[str, str], overlays: Mapping[str, str]) -> periodic.Schedule | None:
    """As the code and the operator have it now; None for one that left the store or cannot be read here."""
    if name not in terms:
        return None
    merged = merge(json.loads(terms[name]), json.loads(overlays.get(name, "{}")))
    try:
        return periodic.read_terms(name, merged)
    except DefinitionError as error:  # by newer code, or for a zone this host does not have
        log.warning("schedule %r is left to other workers: %s", name, error)
        return None


def _last_run(app: App, schedule: periodic.Schedule | None, claim: Claim) -> LastRun:
    last_tick = periodic.unpack_last_tick(claim.arguments)
    if schedule is None or last_tick is None or not schedule.counts_from_end:
        return LastRun()
    key = periodic.tick_key(schedule.name, last_tick)
    found = app.store.run(app.store.find(Selection(tasks=(schedule.task,), key=key), Page(1)))
    if not found:
        return LastRun()
    return LastRun(is_live=found[0].finished_at is None, ended_at=found[0].finished_at)
