"""Everything a visitor may do: orders to the engine, each conditional, counted, and named by its giver."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from duly.bulk import OPEN, Bulk, Order, Outcome, Preview, Sieve, meant_by, named
from duly.cli.schedules import fitting
from duly.dashboard.desk import Desk
from duly.dashboard.filters import Filters
from duly.errors import BadRequest
from duly.jobs import Acted

if TYPE_CHECKING:
    from duly.app import App
    from duly.handle import Handle

NO_TERMS: Final[Mapping[str, Any]] = {}
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


class Orders:
    """What may be done."""

    def __init__(self, app: App, desk: Desk) -> None:
        self._app = app
        self._desk = desk
        self._bulk = Bulk(app.jobs, app.audit, desk.now)

    # jobs

    def give(self, verb: str, ids: Sequence[str], *, by: str, at: datetime | None = None) -> Outcome:
        """An order to single jobs."""
        acted = Order(verb=named(verb), by=by, at=at).give(self._app.jobs, list(ids), {})
        silent = {one: "no job has this id" for one in ids if one not in acted.changed}
        return self._noted(Outcome(len(acted.changed), silent | acted.refused, len(silent | acted.refused)))

    def preview(self, verb: str, filters: Filters, text: str = "") -> Shown:
        """How many jobs an order by filter would reach, and some of them."""
        preview = self._bulk.preview(named(verb), filters.words(), self._sieve(filters, text), looks=LOOKS)
        preview = replace(preview, sample=[self._desk.redaction.job(job) for job in preview.sample])
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
        verb: str,
        filters: Filters,
        *,
        text: str = "",
        newest: int,
        seen_at: datetime,
        by: str,
        at: datetime | None = None,
        tell: Callable[[Acted], object] = lambda acted: None,
    ) -> Outcome:
        """An order to what a preview showed; what has left the set meanwhile is not touched."""
        order = Order(verb=named(verb), by=by, at=at)
        words = meant_by(order.verb, filters.words())
        shown = Preview(order.verb, words, 0, newest, seen_at, (), self._sieve(filters, text))
        return self._noted(self._bulk.give(order, shown, tell))

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
