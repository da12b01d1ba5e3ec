"""A run: every piece of work for every system of a store in turn, again and again.

Systems take turns within each piece of work, in another order every time, so that all share the moods of the
machine. A system that fails leaves a row with the reason; the others go on.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import SubprocessError

from benchmarks import servers
from benchmarks.contenders import STORES, Contender
from benchmarks.environments import Environments, NotInstalled
from benchmarks.figures import Failure, Figures, Sample
from benchmarks.player import Broken, Player, Stage, at_work
from benchmarks.readings import Readings
from benchmarks.works import LONG, WORKS, slots_for

EXPECTED = (Broken, NotInstalled, SubprocessError, OSError)


@dataclass
class Match:
    """Who plays, where, and what came of it."""

    contenders: Sequence[Contender]
    environments: Environments
    figures: Figures
    folder: Path
    keep: Callable[[], None]
    """Called after each piece of work, so that a run that is broken off loses nothing."""
    backlog: int = 1_000_000
    is_resumed: bool = False
    _known: dict[str, Path] = field(default_factory=dict[str, Path])

    def play(self, works: Sequence[str], repetitions: int) -> None:
        self._install()
        with ExitStack() as stack:
            stage = Stage(
                self._logs(),
                stack.enter_context(servers.postgres()),
                stack.enter_context(servers.redis_server()),
            )
            self.figures.about["machine"] = machine(stage)
            self._ask_for_versions(stage)
            for repetition in range(1, repetitions + 1):
                for store in STORES:
                    for work in works:
                        if repetition == 1 or work not in LONG:
                            self._take_turns(stage, store, work, repetition)

    def _logs(self) -> Path:
        folder = self.folder / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _install(self) -> None:
        for each in self.contenders:
            try:
                self._known[each.environment] = self.environments.python(each.environment, each.packages)
            except EXPECTED as error:
                self._fail(each, "install", 1, error)

    def _ask_for_versions(self, stage: Stage) -> None:
        systems = self.figures.about.setdefault("systems", {})
        for each in self.contenders:
            if each.environment not in self._known:
                continue
            with at_work(each, self._known[each.environment], stage, 1) as player:
                try:
                    player.prepare()
                    systems[f"{each.name} ({each.store})"] = told(player)
                except EXPECTED as error:
                    self._fail(each, "setup", 1, error)

    def _take_turns(self, stage: Stage, store: str, work: str, repetition: int) -> None:
        players = [each for each in self.contenders if each.store == store and work in each.works]
        shift = repetition % len(players) if players else 0
        for each in players[shift:] + players[:shift]:
            if self.is_resumed and self.figures.has(each.store, each.name, work, repetition):
                continue
            if each.environment in self._known:
                self._one(stage, each, work, repetition)
                self.keep()

    def _one(self, stage: Stage, each: Contender, work: str, repetition: int) -> None:
        self.figures.forget(each.store, each.name, work, repetition)
        began = time.monotonic()
        slots = slots_for(work, each.amount, most=self.backlog)
        try:
            with at_work(each, self._known[each.environment], stage, slots) as player:
                readings = WORKS[work](player)
        except Exception as error:  # whatever it is, hours of other figures must not be lost for it
            self._fail(each, work, repetition, error)
            return
        for name, value in readings.items():
            self.figures.samples.append(Sample(each.store, each.name, work, repetition, name, value))
        taken = time.monotonic() - began
        say(f"{repetition}  {each.store:24} {each.name:14} {shown(readings)}  [{taken:.1f} s]")

    def _fail(self, each: Contender, work: str, repetition: int, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"[:300]
        self.figures.failures.append(Failure(each.store, each.name, work, repetition, reason))
        say(f"{repetition}  {each.store:24} {each.name:14} {work} FAILED: {reason}")


def told(player: Player) -> dict[str, str]:
    answer = player.call("about")
    versions = ", ".join(f"{name} {version}" for name, version in answer["versions"].items())
    return {"versions": versions or f"Python {answer['python']}", "settings": answer["settings"]}


def machine(stage: Stage) -> str:
    """What it ran on."""
    return (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"PostgreSQL {stage.postgres.version}, Redis {stage.redis.version}, SQLite {sqlite3.sqlite_version}."
    )


def shown(readings: Readings) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in readings.items()) or "nothing to measure"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
