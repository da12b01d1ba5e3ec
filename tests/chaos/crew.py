"""The processes of a chaos run: started, restarted when they die, and aimed at by identity.

A signal goes only to a process this runner started and has not yet reaped, so its number cannot have
passed to another. What a dead worker leaves behind is looked for in its session.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.clocks import WallClock
from tests.chaos.journal import FOLDER, PROCESS, Journal, boot

ROOT: Final = Path(__file__).parents[2]
ORPHANS_SEEN_FOR: Final = 20.0


@dataclass(slots=True)
class Member:
    """One process: a place in the crew, and how often it was filled."""

    name: str
    words: tuple[str, ...]
    clock: WallClock
    url: str
    incarnation: int = 0
    process: subprocess.Popen[bytes] | None = None
    is_wanted: bool = True
    """Filled again when it falls empty."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def title(self) -> str:
        return f"{self.name}-{self.incarnation}"


class Crew:
    """Starts processes and signals them; one thread (the runner's) fills empty places."""

    def __init__(self, folder: Path, journal: Journal, variables: dict[str, str]) -> None:
        self._folder = folder
        self._journal = journal
        self._variables = variables
        self.members: list[Member] = []
        self._dead: dict[int, tuple[str, float]] = {}
        self.is_filling = True

    def add(self, name: str, clock: WallClock, url: str, *words: str) -> Member:
        member = Member(name, words, clock, url)
        self.members.append(member)
        self._start(member)
        return member

    def _start(self, member: Member) -> None:
        member.incarnation += 1
        environment = {
            **os.environ,
            **self._variables,
            **member.clock.variables(),
            "DULY_URL": member.url,
            FOLDER: str(self._folder),
            PROCESS: member.title,
        }
        with (self._folder / f"{member.title}.log").open("ab") as output:
            member.process = subprocess.Popen(
                [sys.executable, "-m", *member.words],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        pid = member.process.pid
        self._journal.write("spawn", who=member.title, target=pid, started=_started_at(pid))

    def tend(self) -> None:
        """Notice deaths, fill empty places, look for survivors of dead workers."""
        for member in self.members:
            process = member.process
            if process is None or process.poll() is None:
                continue
            self._journal.write("death", who=member.title, target=process.pid, code=process.returncode)
            self._dead[process.pid] = (member.title, boot())
            member.process = None
            if self.is_filling and member.is_wanted:
                with member.lock:
                    self._start(member)
        self._look_for_orphans()

    def _look_for_orphans(self) -> None:
        now = boot()
        self._dead = {pid: dead for pid, dead in self._dead.items() if now - dead[1] < ORPHANS_SEEN_FOR}
        if not self._dead:
            return
        for pid, session, state in _processes():
            if session in self._dead and pid != session and state not in "ZX":
                who, died = self._dead[session]
                self._journal.write("orphan", who=who, target=pid, since=died, state=state)

    # faults

    def send(self, member: Member, number: signal.Signals, *, whole_tree: bool = False) -> str | None:
        """To the process in this place now, if there is one; its title, or None."""
        with member.lock:
            process = member.process
            if process is None or process.poll() is not None:
                return None
            for pid in _session(process.pid) if whole_tree else [process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            return member.title

    def kill_child(self, member: Member) -> int | None:
        """SIGKILL to one process of the worker's session that is not the worker."""
        with member.lock:
            if member.process is None or member.process.poll() is not None:
                return None
            children = [pid for pid in _session(member.process.pid) if pid != member.process.pid]
            for pid in children[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                return pid
        return None

    def thaw_session(self, leader: int) -> None:
        """Let everybody of a session go on, also if its leader is gone."""
        for pid in _session(leader):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    # the end

    def all_over(self) -> bool:
        return all(member.process is None for member in self.members)

    def end(self) -> None:
        """Whatever happened: nobody of ours stays behind."""
        self.is_filling = False
        for member in self.members:
            process = member.process
            if process is not None and process.poll() is None:
                for pid in _session(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait(10)
        for leader in self._dead:
            for pid in _session(leader):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _processes() -> list[tuple[int, int, str]]:
    """Pid, session and state of everything that runs."""
    found: list[tuple[int, int, str]] = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                found.append((int(entry), int(fields[3]), fields[0]))
    return found


def _session(leader: int) -> list[int]:
    return [pid for pid, session, _ in _processes() if session == leader]


def _started_at(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def vitals(pid: int) -> tuple[int, int] | None:
    """Open descriptors and threads of a process."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return None
