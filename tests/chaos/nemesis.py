"""Carries out a plan: each fault in a thread of its own, its beginning and end on record."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from typing import Any

from tests.chaos.clocks import WallClock
from tests.chaos.crew import Crew, Member
from tests.chaos.journal import Journal, boot
from tests.chaos.places import Place
from tests.chaos.plan import Step

SKEW = 7200.0
"""How far wall clocks go astray where only the server's counts."""
STEP = 6.0
"""And where the wall clock is the store's: work is late or early by as much."""


class Nemesis:
    """One run's worth of misfortune."""

    def __init__(
        self,
        crew: Crew,
        workers: list[Member],
        producers: list[Member],
        place: Place,
        journal: Journal,
        *,
        shares_clock: bool,
    ) -> None:
        self._crew = crew
        self._workers = workers
        self._producers = producers
        self._place = place
        self._journal = journal
        self._shares_clock = shares_clock
        self.threads: list[threading.Thread] = []
        self._one_at_a_time: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self.errors: list[BaseException] = []

    def start(self, step: Step) -> None:
        thread = threading.Thread(
            target=self._carry_out, args=(step,), name=f"chaos-{step.kind}", daemon=True
        )
        self.threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Until the last fault is over."""
        for thread in self.threads:
            thread.join(120)
            if thread.is_alive():
                raise RuntimeError(f"{thread.name} does not end")
        if self.errors:
            raise self.errors[0]

    def _carry_out(self, step: Step) -> None:
        kind = f"{step.kind}" if step.kind not in WORKER_FAULTS else f"{step.kind} {step.slot}"
        try:
            with self._one_at_a_time[kind]:  # the end of one must not be the end of another
                self._strike(step)
        except BaseException as error:
            self.errors.append(error)

    def _strike(self, step: Step) -> None:
        member = self._workers[step.slot % len(self._workers)]
        match step.kind:
            case "kill":
                self._signal(step, member, signal.SIGKILL)
            case "kill_producer":
                producer = self._producers[step.slot % len(self._producers)]
                self._signal(step, producer, signal.SIGKILL)
            case "terminate":
                self._signal(step, member, signal.SIGTERM)
            case "kill_child":
                begun = boot()
                self._record(step, member.title, begun, child=self._crew.kill_child(member))
            case "freeze" | "freeze_long":
                self._freeze(step, member, whole_tree=False)
            case "freeze_tree":
                self._freeze(step, member, whole_tree=True)
            case "step_clock":
                self._step_clock(step, member.clock)
            case _:
                begun, road = boot(), step.slot % len(self._workers)
                target = member.title if step.kind == "partition" else ""
                self._journal.write("fault", phase="begin", what=step.kind, begun=begun)
                self._place.strike(step.kind, step.seconds, step.strength, road)
                self._record(step, target, begun)

    def _signal(self, step: Step, member: Member, number: signal.Signals) -> None:
        begun = boot()
        title = self._crew.send(member, number)
        if title is not None:
            self._record(step, title, begun)

    def _freeze(self, step: Step, member: Member, *, whole_tree: bool) -> None:
        begun = boot()
        process = member.process
        title = self._crew.send(member, signal.SIGSTOP, whole_tree=whole_tree)
        if title is None or process is None:
            return
        self._journal.write("fault", phase="begin", what=step.kind, begun=begun, target=title)
        time.sleep(step.seconds)
        self._crew.thaw_session(process.pid)
        self._record(step, title, begun)

    def _step_clock(self, step: Step, clock: WallClock) -> None:
        begun = boot()
        reach = STEP if self._shares_clock else SKEW
        clock.set((step.strength * 2 - 1) * reach)
        self._journal.write("clock", offset=clock.offset)
        time.sleep(step.seconds)
        clock.set(0)
        self._journal.write("clock", offset=0.0)
        self._record(step, "", begun)

    def _record(self, step: Step, target: str, begun: float, **more: Any) -> None:
        words = {"what": step.kind, "target": target, "begun": begun, "strength": step.strength}
        self._journal.write("fault", phase="end", **words, **more)


WORKER_FAULTS = frozenset(
    {"kill", "terminate", "kill_child", "freeze", "freeze_long", "freeze_tree", "partition"}
)
