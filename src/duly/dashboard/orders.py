"""Everything a visitor may do: orders to the engine, each conditional, counted, and named by its giver.

A bulk order acts on what was previewed and on nothing that came later. A preview fixes its newest request and
its moment; from then on a job can leave the set, by somebody's hand or by running, but none can join it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duly.dashboard.calendar import fitting
from duly.dashboard.desk import Desk, is_meant
from duly.dashboard.filters import Filters
from duly.errors import BadRequest
from duly.job import FINISHED, LIVE, Job, State
from duly.jobs import Acted

if TYPE_CHECKING:
    from duly.app import App
    from duly.handle import Handle

BATCH: Final = 500
WALKED: Final = 2_000
"""So many are looked at one by one for a preview; beyond that the store counts."""
SAMPLE: Final = 10
NO_TERMS: Final[Mapping[str, Any]] = {}


class Impossible(BadRequest):
    """An order that is well put and cannot be for such jobs."""


class Verb(NamedTuple):
    """An order to jobs."""

    name: str
    past: str
    states: tuple[str, ...]
    """Whom it is for when a filter does not say."""
    possible: frozenset[State]
    """Whom it can be for at all."""


VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb("retry", "retried", ("failed",), FINISHED),
        Verb("cancel", "cancelled", ("running", "waiting"), LIVE),
        Verb("postpone", "postponed", ("waiting",), frozenset({State.WAITING})),
    )
}


@dataclass(frozen=True, slots=True)
class Preview:
    """What an order would reach."""

    verb: Verb
    filters: Filters
    """As they will be applied: with the states the order is for."""
    count: int
    newest: int
    """The newest generation that is meant."""
    seen_at: datetime
    sample: Sequence[Job]
    command: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an order did."""

    changed: int
    refused: dict[str, str]
    """Job id to the reason."""


class Orders:
    """What may be done."""

    def __init__(self, app: App, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    # jobs

    def give(self, verb: str, ids: Sequence[str], *, by: str, at: datetime | None = None) -> Outcome:
        """An order to single jobs."""
        return self._noted(self._give(named(verb), list(ids), by, at, {}))

    def preview(self, verb: str, filters: Filters) -> Preview:
        """How many jobs an order by filter would reach, and some of them."""
        order = named(verb)
        meant = self._meant(order, filters)
        newest, seen_at = self._newest(), self._desk.now()
        walked: list[Job] = []
        for page in self._pages(meant, newest, seen_at):
            walked += page
            if len(walked) > WALKED:
                break
        count = len(walked) if len(walked) <= WALKED else self._desk.count(meant)
        command = f"duly {order.name} {meant.options()}"
        return Preview(order, meant, count, newest, seen_at, walked[:SAMPLE], command)

    def give_all(
        self,
        verb: str,
        filters: Filters,
        *,
        newest: int,
        seen_at: datetime,
        by: str,
        at: datetime | None = None,
    ) -> Outcome:
        """An order to what a preview showed; what has left the set meanwhile is not touched."""
        order = named(verb)
        meant = self._meant(order, filters)
        ids = [job.id for page in self._pages(meant, newest, seen_at) for job in page]
        if not ids:  # the filters alone would choose, and they know nothing of the preview
            return Outcome(0, {})
        with self._app.audit.one_order(order.name, meant.words(), by=by):
            return self._noted(self._give(order, ids, by, at, meant.words()))

    def _give(
        self, order: Verb, ids: list[str], by: str, at: datetime | None, conditions: dict[str, Any]
    ) -> Outcome:
        acted: Acted = Acted([], {})
        jobs = self._app.jobs
        match order.name:
            case "retry":
                acted = jobs.retry(*ids, by=by, **conditions)
            case "cancel":
                acted = jobs.cancel(*ids, by=by, **conditions)
            case _:
                acted = jobs.postpone(*ids, at=at, by=by, **conditions)
        silent = {} if conditions else {one: "no job has this id" for one in ids if one not in acted.changed}
        return Outcome(len(acted.changed), silent | acted.refused)

    def _meant(self, order: Verb, filters: Filters) -> Filters:
        meant = filters if filters.state else filters.but(state=order.states)
        impossible = sorted(set(meant.state) - set(map(str, order.possible)))
        if impossible:
            possible = ", ".join(sorted(map(str, order.possible)))
            raise Impossible(f"What is {impossible[0]!r} cannot be {order.past}; only what is {possible}.")
        return meant

    def _pages(self, meant: Filters, newest: int, seen_at: datetime) -> Iterator[list[Job]]:
        """From new to old: one that was refused still matches, and must not be met again."""
        before: int | None = newest + 1
        while before is not None:
            page = self._app.jobs.list(limit=BATCH, before=before, **meant.words())
            before = page[-1].generation if len(page) == BATCH else None
            chosen = [job for job in page if is_meant(job, meant) and was_so(job, seen_at)]
            if chosen:
                yield chosen

    def _newest(self) -> int:
        found = self._app.jobs.list(limit=1)
        return found[0].generation if found else 0

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


def named(verb: str) -> Verb:
    """An order by its name."""
    try:
        return VERBS[verb]
    except KeyError:
        raise BadRequest(f"There is no order {verb!r}. Orders: {', '.join(VERBS)}.") from None


def was_so(job: Job, seen_at: datetime) -> bool:
    """Whether the job was already in its present state when the preview was made."""
    return job.finished_at is None or job.finished_at <= seen_at


def lane(scope: str, name: str) -> dict[str, Any]:
    """`task` or `queue`, as `app.pause` takes it."""
    if scope not in ("task", "queue"):
        raise BadRequest(f"A {scope!r} cannot be held; a task or a queue can.")
    if not name:
        raise BadRequest(f"Say which {scope} is meant.")
    return {scope: name}


def command(*words: str) -> str:
    """The same as a command line."""
    return "duly " + " ".join(word if word.startswith("--") else shlex.quote(word) for word in words)
