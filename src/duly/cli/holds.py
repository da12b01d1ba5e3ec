"""`duly pause` and `duly resume`: hold work without dropping any of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import switch_row
from duly.cli.exits import Exit, Refusal, UsageError
from duly.cli.filters import full_name, known_tasks
from duly.cli.parser import Arguments, Names, Parser, names
from duly.cli.target import offer_store, opened
from duly.cli.words import did_you_mean, operator, shown

if TYPE_CHECKING:
    from duly.app import App

Held = tuple[str, str]
"""What and which: ("task", "shop.mail"), ("queue", "io"), ("schedule", "nightly")."""


def arguments(parser: Parser, *, with_reason: bool) -> None:
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="tasks by name; the last part is enough")
    several: dict[str, Any] = {"action": Names, "type": names, "metavar": "NAME"}
    parser.option("--queue", **several, help="queues by name")
    parser.option("--schedule", **several, help="schedules by name")
    if with_reason:
        parser.option("--reason", default="", metavar="TEXT", help="shown by status and why")
    offer_store(parser)
    offer_json(parser)


def pause(args: Arguments) -> int:
    with opened(args) as app:
        chosen = _chosen(args, app)
        for what, name in chosen:
            _pause_one(app, what, name, args.reason)
    return _tell(args, [(what, name, True) for what, name in chosen], "held: its work waits")


def resume(args: Arguments) -> int:
    with opened(args) as app:
        chosen = [(what, name, _resume_one(app, what, name)) for what, name in _chosen(args, app)]
    return _tell(args, chosen, "goes on")


def _pause_one(app: App, what: str, name: str, reason: str) -> None:
    match what:
        case "task":
            app.pause(task=name, reason=reason, by=operator())
        case "queue":
            app.pause(queue=name, reason=reason, by=operator())
        case _:
            app.schedules.pause(name, by=operator())


def _resume_one(app: App, what: str, name: str) -> bool:
    match what:
        case "task":
            return app.resume(task=name, by=operator())
        case "queue":
            return app.resume(queue=name, by=operator())
        case _:
            was_held = ("schedule", name) in _held(app)
            app.schedules.resume(name, by=operator())
            return was_held


def _chosen(args: Arguments, app: App) -> list[Held]:
    """What was named, checked before anything is touched: a typing error must not look like a pause."""
    asked: dict[str, list[str]] = {
        "task": args.tasks,
        "queue": args.queue or [],
        "schedule": args.schedule or [],
    }
    if not any(asked.values()):
        raise UsageError("say what: a task, --queue NAME or --schedule NAME")
    known = _known(app)
    return [(what, _checked(what, name, known[what])) for what, given in asked.items() for name in given]


def _known(app: App) -> dict[str, set[str]]:
    store, held = app.store, _held(app)
    queues = {queue for _, queue, _ in store.run(store.census()).jobs}
    queues.update(*(card.queues for card, _, _ in store.run(store.workers())))
    queues.update(task.options.queue_name for task in app.tasks.values())
    known = {
        "task": known_tasks(app),
        "queue": {*queues, "default"},
        "schedule": {view.name for view in app.schedules.list()},
    }
    return {what: seen | {name for kind, name in held if kind == what} for what, seen in known.items()}


def _held(app: App) -> set[Held]:
    rows = [switch_row(switch) for switch in app.store.run(app.store.switches())]
    return {(row["scope"], row["name"]) for row in rows}


def _checked(what: str, name: str, known: Collection[str]) -> str:
    found = full_name(name, known) if what == "task" else name if name in known else None
    if found is None:
        hint = did_you_mean(name, known, "Name the application with -a, so that its code is asked too.")
        raise Refusal(f"nobody has heard of a {what} {name!r}. {hint}")
    return found


def _tell(args: Arguments, chosen: list[tuple[str, str, bool]], effect: str) -> int:
    changes = [{"scope": what, "name": name, "changed": changed} for what, name, changed in chosen]
    lines = [
        f"{what} {shown(name)} {effect if changed else 'was not held'}" for what, name, changed in chosen
    ]
    answer(args, {"changes": changes}, "\n".join(lines))
    return Exit.OK


_PAUSE_ARGUMENTS: Callable[[Parser], None] = partial(arguments, with_reason=True)
_RESUME_ARGUMENTS: Callable[[Parser], None] = partial(arguments, with_reason=False)

PAUSE = Command(
    description="Hold tasks, queues or schedules: their work waits, nothing is dropped.",
    arguments=_PAUSE_ARGUMENTS,
    run=pause,
)
RESUME = Command(
    description="Let held tasks, queues or schedules go on.", arguments=_RESUME_ARGUMENTS, run=resume
)
