"""One system at one piece of work: a fresh store, calls from processes of its own, workers, and their end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import place, processes
from benchmarks.contenders import POSTGRES, REDIS, ROLLBACK, Contender
from benchmarks.servers import Postgres, Redis
from benchmarks.slots import VARIABLE, Slots

PATIENCE: Final = 120.0


class Broken(Exception):
    """A system that failed at its work."""


@dataclass(frozen=True)
class Stage:
    """What a run has: servers, a folder, and where logs go."""

    folder: Path
    postgres: Postgres
    redis: Redis

    def log(self, label: str) -> Path:
        return self.folder / f"{label}.log"


@dataclass
class Player:
    """A system at work."""

    contender: Contender
    python: Path
    stage: Stage
    slots: Slots
    variables: dict[str, str] = field(default_factory=dict[str, str])
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def store(self) -> str:
        return self.contender.store

    def prepare(self) -> None:
        """An empty store, with whatever the system wants to find there."""
        name = self.contender.label
        postgres = self.stage.postgres
        if self.store == POSTGRES:
            if not postgres.has_template(name):
                self._go_to(postgres.make(name))
                self.call("setup")
                postgres.keep(name)
            self._go_to(postgres.copy(name))
            return
        self._go_to(self._emptied())
        self.call("setup")

    def _emptied(self) -> str:
        if self.store == REDIS:
            self.stage.redis.empty()
            return self.stage.redis.url
        file = self.stage.folder / f"{self.contender.label}.db"
        for path in file.parent.glob(f"{file.name}*"):
            if not path.is_dir():  # sockets too
                path.unlink()
        return f"sqlite:///{file}{'?journal=rollback' if self.store == ROLLBACK else ''}"

    def _go_to(self, url: str) -> None:
        self.variables[place.URL] = url

    @property
    def url(self) -> str:
        return self.variables[place.URL]

    @property
    def environment(self) -> dict[str, str]:
        """With bytecode, as every installed program has it, whatever the shell of the harness forbids."""
        bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.stage.folder / "bytecode")}
        mine = {VARIABLE: str(self.slots.path), place.VARIANT: self.contender.variant}
        return os.environ | {"PYTHONPATH": str(place.ROOT)} | bytecode | mine | self.variables

    def call(self, command: str, *words: float, module: str = "benchmarks.driver") -> dict[str, Any]:
        """One process of the system that answers in JSON."""
        line = [str(self.python), "-m", module, self.contender.adapter, command, *map(str, words)]
        with open(self.stage.log(self.contender.label), "a") as log:
            done = subprocess.run(
                line,
                env=self.environment,
                cwd=place.ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=PATIENCE,
                check=False,
            )
        return self._answer(command, done)

    def _answer(self, command: str, done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            raise Broken(f"{command} ended with {done.returncode}: {self.last_words()}")
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer

    def last_words(self) -> str:
        """The last line a system wrote, for the row that says it failed."""
        written = self.stage.log(self.contender.label).read_text(errors="replace").strip().splitlines()
        return written[-1][:200] if written else "it said nothing"

    def start(self, program: Sequence[str] = ()) -> int:
        """A worker in a session of its own, so that its children can be told; answers its process id."""
        line = program or [str(self.python), "-m", "benchmarks.driver", self.contender.adapter, "worker"]
        with open(self.stage.log(self.contender.label), "a") as log:
            worker = subprocess.Popen(
                line, env=self.environment, cwd=place.ROOT, stdout=log, stderr=log, start_new_session=True
            )
        self.workers.append(worker)
        return worker.pid

    def stop(self) -> None:
        """End the workers and whatever they started; what they still hold does not matter any more."""
        for worker in self.workers:
            for pid in {worker.pid, *processes.of_session(worker.pid)}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            worker.wait()
        self.workers.clear()


@contextmanager
def at_work(contender: Contender, python: Path, stage: Stage, amount: int) -> Generator[Player]:
    """A player with slots for its jobs; its workers end with the piece of work."""
    slots = Slots(stage.folder / f"{contender.label}.slots", amount)
    player = Player(contender, python, stage, slots)
    try:
        yield player
    finally:
        player.stop()
        slots.close()
