"""`duly schedules`, `trigger` and `reschedule`: what runs by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.parser import Arguments, Parser
from duly.cli.tables import table
from duly.cli.target import has_code, offer_store, opened
from duly.cli.words import operator, relative, shown, stamp
from duly.durations import describe

if TYPE_CHECKING:
    from duly.app import App
    from duly.schedules import ScheduleView


def list_arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    offer_json(parser)


def list_schedules(args: Arguments) -> int:
    with opened(args) as app:
        views, now, knows_code = app.schedules.list(), app.clock.now(), has_code(app)
    document = {"schedules": [row(view, knows_code=knows_code) for view in views]}
    answer(args, document, _text(views, now, knows_code=knows_code))
    return Exit.OK


def row(view: ScheduleView, *, knows_code: bool) -> dict[str, Any]:
    """A schedule as documents carry it."""
    return {
        "name": view.name,
        "task": view.task,
        "cron": view.terms.get("cron"),
        "every_seconds": view.terms.get("every"),
        "timezone": view.terms.get("timezone"),
        "missed": view.terms.get("missed"),
        "overlap": view.terms.get("overlap"),
        "is_paused": view.is_paused,
        "is_known": view.is_known if knows_code else None,
        "overlay": dict(view.overlay),
        "last_tick": stamp(view.last_tick),
        "next_look": stamp(view.next_look),
    }


def _text(views: list[ScheduleView], now: datetime, *, knows_code: bool) -> str:
    if not views:
        return "no schedules"
    rows = [
        [
            shown(view.name),
            shown(view.task),
            timetable(view),
            _standing(view, knows_code=knows_code),
            relative(view.last_tick, now) or "-",
            relative(view.next_look, now) or "-",
        ]
        for view in views
    ]
    return table(["schedule", "task", "runs", "state", "last tick", "next look"], rows)


def timetable(view: ScheduleView) -> str:
    """When it runs, in words."""
    terms = view.terms
    if terms.get("cron"):
        return shown(f"cron {terms['cron']} {terms.get('timezone', 'UTC')}")
    every = terms.get("every")
    pace = describe(timedelta(seconds=every)) if isinstance(every, int | float) else str(every)
    return f"every {pace}" + (" after the last" if terms.get("mode") == "delay" else "")


def _standing(view: ScheduleView, *, knows_code: bool) -> str:
    if view.is_paused:
        return "held"
    if knows_code and not view.is_known:
        return "not in the code"
    return "edited" if view.overlay else "live"


def trigger_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the schedule")
    offer_store(parser)
    offer_json(parser)


def trigger(args: Arguments) -> int:
    with opened(args, creates=True) as app:
        if not has_code(app):
            raise UsageError("a tick is made from the task's code: say -a module:object, or DULY_APP")
        handle = app.schedules.trigger(args.name, by=operator())
    document = {"id": handle.id, "key": handle.key, "decision": str(handle.decision)}
    answer(args, document, f"{handle.decision} {handle.id} {shown(handle.key or '')}")
    return Exit.OK


TERMS = {
    "cron": ("LINE", "a cron line: '0 2 * * *'"),
    "every": ("TIME", "an interval: 15m"),
    "timezone": ("NAME", "the zone of the cron line: Europe/Paris"),
    "missed": ("WORD", "what becomes of missed ticks: skip, last, all"),
    "overlap": ("WORD", "what becomes of a tick while the last one runs: queue_one, skip, allow"),
    "jitter": ("TIME", "spread ticks over so long"),
}


def edit_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the schedule")
    for term, (metavar, help_) in TERMS.items():
        parser.option(f"--{term}", metavar=metavar, help=help_)
    parser.option("--reset", action="store_true", default=False, help="back to the terms of the code")
    offer_store(parser)
    offer_json(parser)


def edit(args: Arguments) -> int:
    changes = {term: args.get(term) for term in TERMS if args.get(term)}
    if bool(changes) == bool(args.reset):
        raise UsageError("say other terms, such as --cron '0 3 * * *', or --reset")
    with opened(args) as app:
        view = (
            app.schedules.reset(args.name, by=operator())
            if args.reset
            else app.schedules.edit(args.name, by=operator(), **fitting(_terms(app, args.name), changes))
        )
        now, knows_code = app.clock.now(), has_code(app)
    answer(args, row(view, knows_code=knows_code), _text([view], now, knows_code=knows_code))
    return Exit.OK


def _terms(app: App, name: str) -> Mapping[str, Any]:
    found = [view.terms for view in app.schedules.list() if view.name == name]
    return found[0] if found else {}


def fitting(terms: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes as people write them: an interval wins over a cron line, and takes the words away that mean
    nothing beside it."""
    given = {name: value for name, value in changes.items() if value not in ("", None)}
    if "every" in given:
        given.pop("cron", None)
        given.pop("timezone", None)
        return {**given, **({"timezone": "UTC"} if terms.get("timezone") else {})}
    return {**given, **({"mode": "rate"} if "cron" in given and terms.get("mode") else {})}


SCHEDULES = Command(
    description="Show what runs by itself, and when next.", arguments=list_arguments, run=list_schedules
)
TRIGGER = Command(
    description="Run a schedule once now, beside its timetable.", arguments=trigger_arguments, run=trigger
)
RESCHEDULE = Command(
    description="Give a schedule other terms, which survive deploys until --reset; no tick is lost.",
    arguments=edit_arguments,
    run=edit,
)
