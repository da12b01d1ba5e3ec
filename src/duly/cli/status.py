"""`duly status`: how many jobs wait, run and fail, who works, what is held, what follows tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import switch_row, worker_row
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.reconcile import reaction_row, reaction_table
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.watch import follow, offer_every, watch
from duly.cli.words import counted, relative, shown, span, stamp
from duly.errors import StoreError
from duly.job import State
from duly.kinds import periodic
from duly.outbox.contract import Backlog
from duly.reactions import ReactionView
from duly.stores.changes import Changes
from duly.stores.contract import Attendance, Census, Switch
from duly.urls import masked

if TYPE_CHECKING:
    from duly.app import App

STATES = tuple(State)


@dataclass(frozen=True, slots=True)
class Overview:
    """One look at everything."""

    url: str
    now: datetime
    census: Census
    workers: Sequence[Attendance]
    switches: Sequence[Switch]
    outbox: Backlog | None = None
    reactions: Sequence[ReactionView] = ()

    @property
    def jobs(self) -> dict[tuple[str, str, State], int]:
        """Counts of people's jobs; the engine's own are left out."""
        return {key: count for key, count in self.census.jobs.items() if key[1] != periodic.QUEUE}

    def by(self, column: int) -> dict[str, Counter[State]]:
        """Counts by state for each task (0) or queue (1)."""
        counts: dict[str, Counter[State]] = {}
        for key, count in self.jobs.items():
            counts.setdefault(str(key[column]), Counter())[key[2]] += count
        return dict(sorted(counts.items()))

    def total(self) -> Counter[State]:
        """Counts by state over all."""
        total: Counter[State] = Counter()
        for (_, _, state), count in self.jobs.items():
            total[state] += count
        return total


def look(app: App, census: Census | None = None) -> Overview:
    """Ask the store for everything `status` and `doctor` talk about; a census that is at hand is taken."""
    store, now = app.store, app.clock.now()
    workers = store.run(store.workers())
    switches = store.run(store.switches())
    return Overview(
        url=masked(app.settings.url),
        now=now,
        census=store.run(store.census()) if census is None else census,
        workers=workers,
        switches=switches,
        outbox=_backlog(app),
        reactions=app.reactions.list() if isinstance(store, Changes) else (),
    )


def _backlog(app: App) -> Backlog | None:
    """None also where the outbox is away: that is for `doctor` to say."""
    box = app.outbox
    try:
        return None if box is None else box.run(box.backlog())
    except StoreError:
        return None


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    parser.option("--watch", action="store_true", default=False, help="look again and again, until Ctrl-C")
    offer_every(parser)
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        if args.watch and args.json:
            return follow(lambda: document(look(app)), args.every)
        if args.watch:
            return watch(lambda: _text(look(app)), args.every)
        seen = look(app)
    answer(args, document(seen), _text(seen))
    return Exit.OK


def document(seen: Overview) -> dict[str, Any]:
    """The keys of `duly status --json`."""
    return {
        "url": seen.url,
        "now": stamp(seen.now),
        "jobs": _counts(seen.total()),
        "queues": [
            {"queue": name, **_counts(counts), "oldest_due": stamp(seen.census.oldest_due.get(name))}
            for name, counts in seen.by(1).items()
        ],
        "tasks": [{"task": name, **_counts(counts)} for name, counts in seen.by(0).items()],
        "workers": [worker_row(card, at, is_live=live) for card, at, live in seen.workers],
        "held": [switch_row(switch) for switch in seen.switches],
        "suppressed": seen.census.suppressed,
        "refused": seen.census.refused,
        "superseded": seen.census.superseded,
        "outbox": None if seen.outbox is None else _outbox_row(seen.outbox),
        "reactions": [reaction_row(view) for view in seen.reactions],
    }


def _outbox_row(seen: Backlog) -> dict[str, Any]:
    return {
        "waiting": seen.waiting,
        "oldest_seconds": seen.oldest.total_seconds(),
        "set_aside": seen.aside,
        "reason": seen.reason or None,
    }


def _counts(counts: Counter[State]) -> dict[str, int]:
    return {str(state): counts[state] for state in STATES}


def _text(seen: Overview) -> str:
    parts = [
        seen.url,
        _job_table("queue", seen.by(1), seen),
        _job_table("task", seen.by(0), None),
        _worker_table(seen),
        _held_table(seen),
        reaction_table(seen.reactions, seen.now) if seen.reactions else "",
        _outbox_line(seen.outbox),
        f"suppressed {seen.census.suppressed:,}, refused late writes {seen.census.refused:,}, "
        f"superseded {seen.census.superseded:,}",
    ]
    return "\n\n".join(part for part in parts if part)


def _job_table(title: str, groups: dict[str, Counter[State]], seen: Overview | None) -> str:
    if not groups:
        return "no jobs" if seen else ""
    headers = [title, *map(str, STATES), *(["oldest due"] if seen else [])]
    rows = [
        [shown(name), *(f"{counts[state] or '-'}" for state in STATES), *([_lag(seen, name)] if seen else [])]
        for name, counts in groups.items()
    ]
    return table(headers, rows)


def _lag(seen: Overview, queue: str) -> str:
    due = seen.census.oldest_due.get(queue)
    return "-" if due is None else f"{span(seen.now - due)} late"


def _worker_table(seen: Overview) -> str:
    if not seen.workers:
        return "no workers: start one with `duly worker module:app`"
    rows = [
        [
            shown(card.name),
            "live" if live else "lost",
            relative(at, seen.now),
            str(card.slots),
            ", ".join(card.queues) or "all",
            counted(sum(not name.startswith(periodic.PREFIX) for name in card.tasks), "task"),
        ]
        for card, at, live in seen.workers
    ]
    return table(["worker", "state", "seen", "slots", "queues", "knows"], rows)


def _held_table(seen: Overview) -> str:
    if not seen.switches:
        return ""
    rows = [
        [
            row["scope"],
            shown(row["name"]),
            relative(switch.until, seen.now) or "somebody resumes it",
            shown(switch.reason),
        ]
        for switch, row in ((switch, switch_row(switch)) for switch in seen.switches)
    ]
    return table(["held", "name", "until", "reason"], rows)


def _outbox_line(seen: Backlog | None) -> str:
    if seen is None:
        return ""
    aside = f", {seen.aside:,} set aside: {shown(seen.reason)}" if seen.aside else ""
    return f"outbox: {seen.waiting:,} waiting{aside}"


STATUS = Command(
    description="Show how many jobs wait, run and fail, who works, and what is held.",
    arguments=arguments,
    run=run,
)
