"""Which jobs: the filters that jobs, retry and cancel share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from duly.cli.exits import UsageError
from duly.cli.parser import Arguments, Names, Parser, names
from duly.cli.words import did_you_mean
from duly.job import Job, State
from duly.kinds import periodic

if TYPE_CHECKING:
    from duly.app import App

FILTERS = ("task", "state", "queue", "key", "error", "fingerprint")


def offer_filters(parser: Parser) -> None:
    """Each narrows; names may be repeated or joined by commas."""
    several: dict[str, Any] = {"action": Names, "type": names, "metavar": "NAME"}
    parser.option("--task", **several, help="of this task; its last part is enough where that is clear")
    parser.option("--state", **several, help=f"in this state: {', '.join(State)}")
    parser.option("--queue", **several, help="on this queue")
    parser.option("--key", help="with this key")
    parser.option("--error", metavar="TEXT", help="with this text in their error")
    parser.option("--fingerprint", metavar="NAME", help="whose error has this name: see `duly failures`")
    parser.option("--where", metavar="SQL", help="of a reactive task, for rows of which this is true")


def read_filters(args: Arguments, app: App) -> dict[str, Any]:
    """Only what was given, in the terms of `app.jobs`."""
    given = {name: args.get(name) for name in FILTERS if args.get(name)}
    for state in given.get("state", ()):
        if state not in {str(known) for known in State}:
            hint = did_you_mean(state, list(map(str, State)), f"The states are {', '.join(State)}.")
            raise UsageError(f"{state!r} is no state. {hint}")
    if "task" in given:
        known = known_tasks(app)
        given["task"] = [full_name(name, known) or name for name in given["task"]]
    return given


def read_rows(args: Arguments, filters: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `app.reactions` chooses rows by, where a condition on them was given."""
    if not args.get("where"):
        return None
    tasks = filters.get("task", ())
    if len(tasks) != 1 or "queue" in filters or "fingerprint" in filters:
        raise UsageError("--where is about the rows of one reactive task: say which with --task")
    chosen = {name: filters[name] for name in ("state", "key", "error") if name in filters}
    return {"task": tasks[0], "where": args.where, **chosen}


def known_tasks(app: App) -> set[str]:
    """Every task anybody has heard of: the code, live workers, stored jobs."""
    store = app.store
    cards = [card for card, _, _ in store.run(store.workers())]
    stored = {task for task, _, _ in store.run(store.census()).jobs}
    return stored.union(app.tasks, *(card.tasks for card in cards))


def full_name(name: str, known: Collection[str]) -> str | None:
    """The task somebody means by its whole name or its last part; None if nobody or several fit."""
    if name in known:
        return name
    fitting = [task for task in known if task.endswith(f".{name}")]
    return fitting[0] if len(fitting) == 1 else None


def names_lane(filters: Mapping[str, Any]) -> bool:
    """Whether somebody asked for a task or a queue by name; else the engine's own jobs are not meant."""
    return "task" in filters or "queue" in filters


def count_meant(app: App, filters: Mapping[str, Any]) -> int:
    """How many jobs filters select, schedules' own jobs left out unless named."""
    total = app.jobs.count(**filters)
    return total if names_lane(filters) else total - app.jobs.count(queue=periodic.QUEUE, **filters)


def is_internal(job: Job) -> bool:
    """A schedule's own job: the clockwork, not the work."""
    return job.queue == periodic.QUEUE
