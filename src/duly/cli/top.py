"""`duly top`: what happens now, live. Queues with their pace and lag, workers, and what runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import job_row, worker_row
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.redaction import Redaction
from duly.cli.status import Overview, look
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.watch import can_redraw, offer_every, watch
from duly.cli.words import clipped, relative, shown, span, stamp
from duly.job import ENGINE_QUEUES, FINISHED, Job, State
from duly.secrecy.calls import parsed
from duly.stores.contract import Page, Selection

if TYPE_CHECKING:
    from duly.app import App

MOST = 200
"""Running jobs that are read for one look."""
KEY_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Moment:
    """One look."""

    overview: Overview
    running: Sequence[Job]

    def ended(self, queue: str, *states: State) -> int:
        """Jobs of a queue that have ended."""
        counts = self.overview.by(1).get(queue, Counter[State]())
        return sum(counts[state] for state in states)


@dataclass(frozen=True, slots=True)
class Pace:
    """Ends per second between two looks; None where there was no look before."""

    ended: float | None = None
    failed: float | None = None


def glance(app: App) -> Moment:
    """Ask the store: the counts of `duly status`, and at most so many running jobs."""
    store, page = app.store, Page(MOST)
    running = store.run(store.find(Selection(states=(State.RUNNING,)), page))
    seen = Redaction(app).jobs(job for job in running if job.queue not in ENGINE_QUEUES)
    return Moment(look(app), seen)


def pace_of(queue: str, now: Moment, before: Moment | None) -> Pace:
    """Pruning takes ends away again, so a difference below nothing is nothing."""
    if before is None:
        return Pace()
    seconds = (now.overview.now - before.overview.now).total_seconds()
    if seconds <= 0:
        return Pace()
    ended, failed = (
        max(0, now.ended(queue, *states) - before.ended(queue, *states)) / seconds
        for states in (tuple(FINISHED), (State.FAILED,))
    )
    return Pace(ended, failed)


# --- as text --------------------------------------------------------------------------------------


def text_of(now: Moment, before: Moment | None) -> str:
    """The whole screen; what matters most comes first, since the end may be cut."""
    seen = now.overview
    totals = seen.total()
    counts = ", ".join(f"{state} {totals[state]:,}" for state in State if totals[state])
    parts = [
        f"{seen.url}  {seen.now.astimezone():%H:%M:%S}\n{counts or 'no jobs'}",
        _queues(now, before),
        _workers(now),
        _running(now),
    ]
    return "\n\n".join(part for part in parts if part)


def _queues(now: Moment, before: Moment | None) -> str:
    seen = now.overview
    rows = [
        [
            shown(name),
            f"{counts[State.WAITING]:,}",
            f"{counts[State.RUNNING]:,}",
            _rate(pace_of(name, now, before).ended),
            _rate(pace_of(name, now, before).failed),
            _lag(seen, name),
        ]
        for name, counts in seen.by(1).items()
    ]
    return table(["queue", "waiting", "running", "ended/s", "failed/s", "lag"], rows) if rows else ""


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _lag(seen: Overview, queue: str) -> str:
    due = seen.census.oldest_due.get(queue)
    return "-" if due is None else span(seen.now - due)


def _workers(now: Moment) -> str:
    if not now.overview.workers:
        return "no workers: start one with `duly worker module:app`"
    busy = _busy(now.running)
    rows = [
        [
            shown(card.name),
            "live" if live else "lost",
            relative(at, now.overview.now),
            f"{busy[card.id]} of {card.slots}",
            ", ".join(card.queues) or "all",
        ]
        for card, at, live in now.overview.workers
    ]
    return table(["worker", "state", "seen", "running", "queues"], rows)


def _busy(running: Sequence[Job]) -> Counter[str]:
    return Counter(job.worker for job in running)


def _running(now: Moment) -> str:
    """Oldest requests first: who runs for long is among them."""
    names = {card.id: card.name for card, _, _ in now.overview.workers}
    rows = [
        [
            shown(job.task),
            shown(clipped(job.key or "-", KEY_WIDTH)),
            relative(job.due, now.overview.now),
            str(job.attempt + 1),
            shown(names.get(job.worker, job.worker)),
            job.id,
            _progress(job),
        ]
        for job in reversed(now.running)
    ]
    headers = ["running", "key", "due", "try", "worker", "id", "progress"]
    return table(headers, rows) if rows else "nothing runs"


def _progress(job: Job) -> str:
    found = parsed(job.progress)
    if not isinstance(found, Mapping):
        return "-"
    told = cast(Mapping[str, Any], found)
    done, total = told.get("done"), told.get("total")
    far = f"{done:g} of {total:g}" if total is not None else f"{done:g}"
    return shown(f"{far} {told.get('message') or ''}".rstrip())


# --- as a document --------------------------------------------------------------------------------


def document_of(now: Moment, before: Moment | None) -> dict[str, Any]:
    """The keys of `duly top --json`."""
    seen = now.overview
    return {
        "url": seen.url,
        "now": stamp(seen.now),
        "queues": [_queue_row(name, now, before) for name in seen.by(1)],
        "workers": [
            worker_row(card, at, is_live=live) | {"running": _busy(now.running)[card.id]}
            for card, at, live in seen.workers
        ],
        "running": [job_row(job) | {"progress": parsed(job.progress)} for job in reversed(now.running)],
    }


def _queue_row(name: str, now: Moment, before: Moment | None) -> dict[str, Any]:
    seen, pace = now.overview, pace_of(name, now, before)
    due = seen.census.oldest_due.get(name)
    return {
        "queue": name,
        "waiting": seen.by(1)[name][State.WAITING],
        "running": seen.by(1)[name][State.RUNNING],
        "lag_seconds": 0.0 if due is None else (seen.now - due).total_seconds(),
        "ended_per_second": pace.ended,
        "failed_per_second": pace.failed,
    }


# --- the command ----------------------------------------------------------------------------------


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    offer_every(parser)
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        if args.json or not can_redraw(sys.stdout):
            now = glance(app)
            answer(args, document_of(now, None), text_of(now, None))
            return Exit.OK
        before: Moment | None = None

        def draw() -> str:
            nonlocal before
            now = glance(app)
            text, before = text_of(now, before), now
            return f"duly top, every {span(args.every)}, Ctrl-C ends\n{text}"

        return watch(draw, args.every)


TOP = Command(
    description="Watch queues, workers and running jobs, live.",
    epilog="Where the output is no terminal, or with --json, it looks once.",
    arguments=arguments,
    run=run,
)
