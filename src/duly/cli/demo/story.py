"""The acts of the demo, and what the viewer is told about them.

Each act waits for facts in the store, never for a guess at how long something takes, so it plays the
same on a slow machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from duly.cli.demo import app as office
from duly.cli.demo.crew import Crew, Mate
from duly.cli.demo.views import View, bar
from duly.handle import Handle
from duly.job import LIVE, Job, State
from duly.kinds import periodic

PATIENCE: Final = 45.0
"""Seconds any one fact may take to come true."""
ACTS: Final = 12.0
"""Seconds the acts take by themselves."""


class StoryStuck(Exception):
    """A fact did not come true."""


@dataclass(slots=True)
class Outcome:
    """What was asked for, for the audit."""

    orders: list[int] = field(default_factory=list[int])
    parcels: dict[str, str] = field(default_factory=dict[str, str])
    """Parcel to job id."""
    exits: dict[str, int] = field(default_factory=dict[str, int])
    jobs: list[Job] = field(default_factory=list[Job])
    refused: int = 0
    seconds: float = 0.0


class Story:
    """Plays the acts and keeps the viewer informed."""

    def __init__(self, crew: Crew, view: View, seconds: float) -> None:
        self._crew = crew
        self._view = view
        self._began = time.monotonic()
        self._calm = max(1.0, (seconds - ACTS) / 2)
        self._feeds = True
        self._fed_at = 0.0
        self._now = ""
        self._slow_until = 0.0
        self.outcome = Outcome()

    # the acts

    def play(self) -> Outcome:
        """From the first worker to the last goodbye."""
        self._open()
        self._work("orders are packed; one in seven slips and is tried again")
        self._kill_one()
        self._work("the crew goes on, with a new hand")
        self._freeze_one()
        self._close()
        self.outcome.seconds = self._clock()
        return self.outcome

    def _open(self) -> None:
        self._say("two workers start, on a fresh SQLite file: ann and bob")
        for name in ("ann", "bob"):
            self._crew.hire(name)
        self._enqueue(30)
        self._until(lambda: len(self._workers()) == 2, "two workers to start")
        self._say("30 orders are enqueued; a clock strikes every second, a lookout runs for ever")

    def _work(self, what: str) -> None:
        self._now = what
        until = time.monotonic() + self._calm
        self._until(lambda: time.monotonic() >= until, "time to pass")

    def _kill_one(self) -> None:
        victim, job = self._deliver("the piano")
        self._crew.kill(victim)
        self._say(
            f"kill -9 {victim.process.pid}: {victim.name} is dead in the middle of delivering {job.key}"
        )
        self._taken_over(job, victim)
        self._crew.hire("cid")
        self._say("a new worker, cid, takes the place of the dead one")

    def _freeze_one(self) -> None:
        victim, job = self._deliver("the mirror")
        self._crew.freeze(victim)
        self._say(f"SIGSTOP {victim.process.pid}: {victim.name} is frozen while it delivers {job.key}")
        self._taken_over(job, victim)
        self._now = f"{victim.name} stays frozen until its own delivery would have ended"
        self._until(lambda: time.monotonic() > self._slow_until, "time to pass")
        self._crew.thaw(victim)
        self._say(f"SIGCONT: {victim.name} wakes up and believes it still owns {job.key}")
        self._until(lambda: self._has_refused(job), "the late write to be refused")
        self._say(
            f"its late write is refused: it shows epoch {job.epoch}, {job.key} is at {self._epoch(job)}"
        )

    def _close(self) -> None:
        self._feeds = False
        self._now = "no new orders; what is left gets done"
        self._until(lambda: self._live("pack", "deliver") == 0, "all orders to end")
        office.app.schedules.pause(office.CLOCK)
        self._until(lambda: self._live("strike") == 0, "the last tick to end")
        self._say("SIGTERM to the crew: everybody finishes and leaves")
        self.outcome.exits = self._crew.dismiss()
        self.outcome.refused = office.app.store.run(office.app.store.census()).refused
        self.outcome.jobs = self._all_jobs()
        office.app.close()

    # parts of acts

    def _deliver(self, parcel: str) -> tuple[Mate, Job]:
        """A slow delivery, seen to be under way, and the worker who does it."""
        job, number = self._send(parcel), 1
        while job.state is not State.RUNNING:  # on a stalled machine it may be over before we see it begin
            number += 1
            job = self._send(f"{parcel} number {number}")
        mate = self._crew.mates[self._workers()[job.worker]]
        self._say(f"{mate.name} delivers {job.key} (job …{job.id[-6:]}, epoch {job.epoch})")
        return mate, job

    def _send(self, parcel: str) -> Job:
        handle: Handle[Any] = office.deliver.using(key=parcel).enqueue(parcel)
        self.outcome.parcels[parcel] = handle.id
        self._now = f"somebody is to deliver {parcel}"
        self._until(lambda: self._has_begun(handle.id), f"{parcel} to be on its way")
        self._slow_until = time.monotonic() + office.SLOW
        return office.app.jobs.get(handle.id)

    def _has_begun(self, job_id: str) -> bool:
        job = office.app.jobs.get(job_id)
        return job.progress is not None or job.state is State.DONE

    def _taken_over(self, job: Job, victim: Mate) -> None:
        self._until(
            lambda: self._epoch(job) > job.epoch, "the job to be lent again", self._countdown(job, victim)
        )
        heir = self._workers().get(office.app.jobs.get(job.id).worker, "another")
        self._say(
            f"the lease ran out: {heir} takes {job.key} over, epoch {self._epoch(job)}, alone in a process"
        )
        self._now = f"{heir} delivers {job.key}"
        self._until(lambda: office.app.jobs.get(job.id).state is State.DONE, f"{job.key} to be delivered")
        self._say(f"{heir} has delivered {job.key}")

    def _countdown(self, job: Job, victim: Mate) -> Callable[[], str]:
        def text() -> str:
            seen = office.app.jobs.get(job.id)
            left = (seen.ready_at - office.app.clock.now()).total_seconds() if seen.ready_at else 0.0
            return f"{victim.name} is {victim.fate}; its lease on {job.key} ends in {max(0.0, left):.1f} s"

        return text

    # the stage

    def _until(self, is_true: Callable[[], bool], what: str, now: Callable[[], str] | None = None) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_true():
            if dead := self._crew.unexpectedly_dead():
                raise StoryStuck(f"{', '.join(dead)} ended unasked while waiting for {what}")
            if time.monotonic() > deadline:
                raise StoryStuck(f"waited {PATIENCE:g} s for {what}")
            if now is not None:
                self._now = now()
            self._feed()
            self._view.show(self._panel())
            time.sleep(0.08)

    def _feed(self) -> None:
        if self._feeds and time.monotonic() - self._fed_at > 0.25:
            self._fed_at = time.monotonic()
            self._enqueue(1)

    def _enqueue(self, count: int) -> None:
        first = len(self.outcome.orders) + 1
        orders = list(range(first, first + count))
        office.pack.enqueue_many([((order,), {}) for order in orders])
        self.outcome.orders += orders

    def _say(self, text: str) -> None:
        self._now = text
        self._view.say(f"{self._clock():5.1f} s  {text}")

    def _clock(self) -> float:
        return time.monotonic() - self._began

    # looking

    def _workers(self) -> dict[str, str]:
        """Worker id to the name it was given."""
        return {card.id: card.name for card, _, _ in office.app.store.run(office.app.store.workers())}

    def _epoch(self, job: Job) -> int:
        return office.app.jobs.get(job.id).epoch

    def _has_refused(self, job: Job) -> bool:
        return any(line.event == "refused" for line in office.app.jobs.get(job.id).history)

    def _live(self, *tasks: str) -> int:
        named = [task.name for task in office.app.tasks.values() if task.name.rpartition(".")[2] in tasks]
        return office.app.jobs.count(task=named, state=sorted(LIVE))

    def _all_jobs(self) -> list[Job]:
        """With history, for the audit; the engine's own left out."""
        found = office.app.jobs.list(limit=10_000)
        return [office.app.jobs.get(job.id) for job in found if job.queue != periodic.QUEUE]

    def _panel(self) -> list[str]:
        census = office.app.store.run(office.app.store.census())
        counts = {(task.rpartition(".")[2], state): count for (task, _, state), count in census.jobs.items()}
        done, total = counts.get(("pack", State.DONE), 0), len(self.outcome.orders)
        crew = "   ".join(f"{mate.name} {mate.fate}" for mate in self._crew.mates.values())
        cycles = max(
            (job.cycle for job in office.app.jobs.list(task=office.look_around.name, limit=1)), default=0
        )
        return [
            f"{self._clock():5.1f} s  {bar(done, total)} {done} of {total} orders packed",
            f"         now      {self._now}",
            f"         crew     {crew}",
            f"         clock    {counts.get(('strike', State.DONE), 0)} strikes   lookout {cycles} rounds"
            f"   late writes refused {census.refused}",
        ]
