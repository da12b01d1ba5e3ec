"""Everything a visitor may do: orders to the engine, each conditional, counted, and named by its giver."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from duly.bulk import OPEN, VERBS, Bulk, Order, Outcome, Preview, Sieve, Verb, meant_by, named
from duly.cli.schedules import fitting
from duly.dashboard.desk import Desk
from duly.dashboard.errands import Errand, Errands
from duly.dashboard.filters import Filters
from duly.errors import BadRequest
from duly.jobs import Acted
from duly.urls import masked

if TYPE_CHECKING:
    from duly.app import App
    from duly.audit import Deed
    from duly.handle import Handle

NO_TERMS: Final[Mapping[str, Any]] = {}
NEARLY: Final = 1.0
"""Seconds a page waits for the end of an order: most need no second look."""
LOOKS: Final = 5
"""So many looks a preview takes where jobs are looked at one by one: 100,000 jobs are searched for a text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What an order would reach, as a page tells it."""

    preview: Preview
    filters: Filters
    """As they will be applied: with the states the order is for."""
    text: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """An order to what a preview showed, and who gives it."""

    verb: str
    filters: Filters
    newest: int
    seen_at: datetime
    by: str
    text: str = ""
    at: datetime | None = None


class Stage(StrEnum):
    """How far an order to many is."""

    AT_WORK = "at work"
    DONE = "done"
    CUT_SHORT = "cut short"
    ELSEWHERE = "elsewhere"
    """Another process is at work, or was when it died: its line in the audit is not complete."""


@dataclass(frozen=True, slots=True)
class Advance:
    """How far an order is, and what it did so far."""

    deed: Deed
    outcome: Outcome
    stage: Stage
    error: str = ""

    @property
    def verb(self) -> Verb:
        """What was ordered."""
        return named(self.deed.order)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be expected."""
        return self.stage in (Stage.DONE, Stage.CUT_SHORT)


class Orders:
    """What may be done."""

    def __init__(self, app: App, desk: Desk) -> None:
        self._app = app
        self._desk = desk
        self._bulk = Bulk(app.jobs, app.audit, desk.now)
        self._errands = Errands()

    # jobs

    def give(self, verb: str, ids: Sequence[str], *, by: str, at: datetime | None = None) -> Outcome:
        """An order to single jobs."""
        acted = Order(verb=named(verb), by=by, at=at).give(self._app.jobs, list(ids), {})
        silent = {one: "no job has this id" for one in ids if one not in acted.changed}
        return self._noted(Outcome(len(acted.changed), silent | acted.refused, len(silent | acted.refused)))

    def preview(self, verb: str, filters: Filters, text: str = "") -> Shown:
        """How many jobs an order by filter would reach, and some of them."""
        preview = self._bulk.preview(named(verb), filters.words(), self._sieve(filters, text), looks=LOOKS)
        preview = replace(preview, sample=self._desk.redaction.jobs(preview.sample))
        meant = filters.but(state=tuple(preview.words["state"]))
        when = " --after 10m" if verb == "postpone" else ""
        return Shown(preview, meant, text, f"duly {verb} {meant.options(text=text)}{when}")

    def _sieve(self, filters: Filters, text: str) -> Sieve:
        """Nobody acts on what they could not find: a count would tell what is hidden."""
        if not text and not filters.error:
            return OPEN
        return Sieve(text=text, shows=lambda job: self._desk.shows(job, text, filters))

    def give_all(
        self,
        asked: Instruction,
        tell: Callable[[Acted], object] = lambda acted: None,
        begin: Callable[[int | None], object] = lambda number: None,
    ) -> Outcome:
        """An order to what a preview showed; what has left the set meanwhile is not touched."""
        order = Order(verb=named(asked.verb), by=asked.by, at=asked.at)
        words, sieve = meant_by(order.verb, asked.filters.words()), self._sieve(asked.filters, asked.text)
        shown = Preview(order.verb, words, 0, asked.newest, asked.seen_at, (), sieve)
        try:
            return self._bulk.give(order, shown, tell, begin)
        finally:
            self._desk.forget()

    def send(self, asked: Instruction) -> Errand:
        """The same, without waiting for its end."""
        return self._errands.send(lambda errand: self.give_all(asked, errand.note, errand.begin))

    def advance(self, number: int) -> Advance | None:
        """How far an order is, by its number in the audit; one that is nearly done is waited for."""
        errand = self._errands.find(number)
        if errand is not None:
            errand.is_ended.wait(NEARLY)
        deed = next(iter(self._app.audit.list(limit=1, before=number + 1)), None)
        if deed is None or deed.number != number or deed.order not in VERBS:
            return None
        if errand is None:
            outcome = Outcome(deed.changed, refusals=deed.refused)
            return Advance(deed, outcome, Stage.DONE if deed.is_complete else Stage.ELSEWHERE)
        if not errand.is_ended.is_set():
            return Advance(deed, errand.outcome, Stage.AT_WORK)
        stage = Stage.DONE if errand.error is None else Stage.CUT_SHORT
        return Advance(deed, errand.outcome, stage, masked(str(errand.error or "")))

    # lanes

    def pause(self, scope: str, name: str, *, by: str, reason: str = "") -> None:
        """Hold a task or a queue."""
        words = f"{reason} (paused by {by})".strip() if by else reason
        self._app.pause(**lane(scope, name), reason=words, by=by)
        self._desk.forget()

    def resume(self, scope: str, name: str, *, by: str) -> bool:
        """Let it go on; False if it was not held."""
        was_held = self._app.resume(**lane(scope, name), by=by)
        self._desk.forget()
        return was_held

    # schedules

    def pause_schedule(self, name: str, *, by: str) -> None:
        """Put no ticks."""
        self._app.schedules.pause(name, by=by)
        self._desk.forget()

    def resume_schedule(self, name: str, *, by: str) -> None:
        """Go on."""
        self._app.schedules.resume(name, by=by)
        self._desk.forget()

    def trigger(self, name: str, *, by: str) -> Handle[Any]:
        """Once now, beside the timetable."""
        handle = self._app.schedules.trigger(name, by=by)
        self._desk.forget()
        return handle

    def edit_schedule(self, name: str, changes: dict[str, Any], *, by: str) -> None:
        """Overlay the code's terms."""
        terms = next((view.terms for view in self._app.schedules.list() if view.name == name), NO_TERMS)
        self._app.schedules.edit(name, by=by, **fitting(terms, changes))
        self._desk.forget()

    def reset_schedule(self, name: str, *, by: str) -> None:
        """Back to the code's terms."""
        self._app.schedules.reset(name, by=by)
        self._desk.forget()

    # reactions

    def reconcile(self, task: str, *, by: str) -> None:
        """Have workers look at every row the task follows."""
        self._app.reactions.reconcile(task, by=by)
        self._desk.forget()

    def _noted(self, outcome: Outcome) -> Outcome:
        self._desk.forget()
        return outcome


def lane(scope: str, name: str) -> dict[str, Any]:
    """`task` or `queue`, as `app.pause` takes it."""
    if scope not in ("task", "queue"):
        raise BadRequest(f"A {scope!r} cannot be held; a task or a queue can.")
    if not name:
        raise BadRequest(f"Say which {scope} is meant.")
    return {scope: name}


def command(*words: str) -> str:
    """The same as a command line, every word quoted: people paste it, and strangers name queues."""
    return "duly " + " ".join(map(shlex.quote, words))
