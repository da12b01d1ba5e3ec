"""The list of commands: name, one line about it, and where it lives until somebody calls it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from duly.cli.parser import Arguments, Parser


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a command takes and does."""

    description: str
    arguments: Callable[[Parser], None]
    run: Callable[[Arguments], int]
    epilog: str = ""


class Entry(NamedTuple):
    """A command before it is loaded."""

    name: str
    summary: str
    place: str
    """module:NAME of its Command; the module's whole name where it is not one of the command line's own."""

    def load(self) -> Command:
        """Import it now."""
        module, _, name = self.place.partition(":")
        whole = module if "." in module else f"duly.cli.{module}"
        command: Command = getattr(importlib.import_module(whole), name)
        return command


COMMANDS = {
    entry.name: entry
    for entry in (
        Entry("worker", "run the tasks of an application", "worker:WORKER"),
        Entry("status", "how many jobs wait, run and fail; who works; what is held", "status:STATUS"),
        Entry("top", "queues, workers and running jobs, live", "top:TOP"),
        Entry("health", "whether a worker on this machine can take work", "health:HEALTH"),
        Entry("jobs", "list jobs, newest first", "jobs:JOBS"),
        Entry("show", "one job with its history", "show:SHOW"),
        Entry("failures", "what goes wrong, by cause", "failures:FAILURES"),
        Entry("why", "why a job is not running now", "why:WHY"),
        Entry("retry", "run finished jobs once more", "orders:RETRY"),
        Entry("cancel", "cancel waiting jobs, ask running ones to stop", "orders:CANCEL"),
        Entry("postpone", "make waiting jobs ready at another time", "orders:POSTPONE"),
        Entry("prune", "delete finished jobs before their time", "prune:PRUNE"),
        Entry("pause", "hold a task, a queue or a schedule", "holds:PAUSE"),
        Entry("resume", "let a held task, queue or schedule go on", "holds:RESUME"),
        Entry("audit", "who gave which order, newest first", "audit:AUDIT"),
        Entry("schedules", "what runs by itself, and when next", "schedules:SCHEDULES"),
        Entry("trigger", "run a schedule once now", "schedules:TRIGGER"),
        Entry("reschedule", "give a schedule other terms, or the code's again", "schedules:RESCHEDULE"),
        Entry(
            "dashboard", "a web page that shows all this and takes orders", "duly.dashboard.command:DASHBOARD"
        ),
        Entry("reconcile", "look at every row of the tables that tasks follow", "reconcile:RECONCILE"),
        Entry("migrate", "bring the store's schema up to this version", "migrate:MIGRATE"),
        Entry("move", "carry everything to another store", "move:MOVE"),
        Entry("import", "schedules of another system, as code", "importing:IMPORT"),
        Entry("doctor", "check store, workers and waiting work; say what to do", "doctor:DOCTOR"),
        Entry("bench", "how fast it is on a store of yours", "bench:BENCH"),
        Entry("demo", "watch it work, and survive a kill -9, on a file of its own", "demo:DEMO"),
    )
}


def find_entry(name: str) -> Entry:
    """A command by name; a LookupError that suggests the nearest one."""
    if name in COMMANDS:
        return COMMANDS[name]
    from difflib import get_close_matches  # long to load, and rarely needed

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "`duly --help` lists them."
    raise LookupError(f"there is no command {name!r}. {hint}")


def overview() -> str:
    """What `duly` alone prints."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {entry.name:<{width}}{entry.summary}" for entry in COMMANDS.values()]
    return "\n".join(
        [
            "usage: duly COMMAND [options]",
            "",
            *lines,
            "",
            "`duly COMMAND --help` tells the options; each is also an environment variable, DULY_<OPTION>.",
            "`duly --version` tells the version.",
        ]
    )
