"""What `manage.py duly_status` and `duly_check` find out about an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from duly.app import App
from duly.django import compat
from duly.django.engines import engine
from duly.django.registry import is_loadable
from duly.django.steps import missing_steps
from duly.errors import DulyError
from duly.job import State
from duly.kinds import periodic
from duly.urls import masked


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found; a remedy where something is wrong."""

    text: str
    remedy: str = ""

    @property
    def is_well(self) -> bool:
        return not self.remedy


def overview(app: App) -> Iterator[str]:
    """Jobs by queue and state, workers, and what is held, as lines."""
    store = app.store
    census = store.run(store.census())
    yield masked(app.settings.url)
    counts: dict[str, Counter[State]] = {}
    for (_, queue, state), count in census.jobs.items():
        if queue != periodic.QUEUE:
            counts.setdefault(queue, Counter())[state] += count
    for queue, states in sorted(counts.items()):
        told = ", ".join(f"{states[state]} {state}" for state in State if states[state])
        oldest = census.oldest_due.get(queue)
        late = f"; the oldest was due {oldest.isoformat(timespec='seconds')}" if oldest else ""
        yield f"  queue {queue}: {told}{late}"
    if not counts:
        yield "  no jobs"
    for attendance in store.run(store.workers()):
        seen = attendance.seen_at.isoformat(timespec="seconds")
        lease = "" if attendance.has_lease else " (its lease ran out)"
        yield f"  worker {attendance.card.name}, seen {seen}{lease}"
    for switch in store.run(store.switches()):
        yield f"  {switch.scope} {switch.name} is held{': ' if switch.reason else ''}{switch.reason}"


def examine(alias: str) -> Iterator[Finding]:
    """Everything that usually goes wrong with one backend."""
    yield from _settings(alias)
    try:
        app = engine(alias)
        app.open()
    except (DulyError, compat.DatabaseError) as error:
        yield Finding(f"the store does not answer: {error}", "Start it, or correct the settings.")
        return
    yield Finding(f"the store answers: {masked(app.settings.url)}")
    yield from _tables()
    yield from _workers(app)
    yield from _paths(app)


def _settings(alias: str) -> Iterator[Finding]:
    for message in compat.task_backends[alias].check():
        yield Finding(str(message.msg), str(message.hint or "Correct the settings."))


def _tables() -> Iterator[Finding]:
    for alias in compat.connections:
        missing = missing_steps(alias)
        if missing:
            yield Finding(
                f"the database {alias!r} lacks {', '.join(missing)}",
                f"Run manage.py migrate --database {alias}.",
            )


def _workers(app: App) -> Iterator[Finding]:
    alive = [each.card.name for each in app.store.run(app.store.workers()) if each.has_lease]
    if alive:
        yield Finding(f"{len(alive)} at work: {', '.join(alive)}")
    elif app.jobs.count(state=State.WAITING):
        yield Finding("jobs wait and nobody works", "Start manage.py duly_worker.")
    else:
        yield Finding("nobody works, and nothing waits")


def _paths(app: App) -> Iterator[Finding]:
    """Work whose task is gone waits for ever, unless somebody sees it."""
    jobs = app.store.run(app.store.census()).jobs
    waiting = {task for task, queue, state in jobs if state is State.WAITING and queue != periodic.QUEUE}
    for task in sorted(waiting - set(app.tasks)):
        if not is_loadable(task):
            yield Finding(
                f"jobs of {task} wait, and no task is there",
                "Bring the function back, or cancel them: engine().jobs.cancel(task=…).",
            )
