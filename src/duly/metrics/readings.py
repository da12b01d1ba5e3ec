"""Values of metrics as they are now, whoever asks: the one place where labels are filled in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from duly.app import App
from duly.job import ENGINE_QUEUES, State
from duly.metrics import catalogue
from duly.metrics.catalogue import Metric
from duly.metrics.lookout import Lookout, Sight
from duly.metrics.tally import OTHER, Room, Tally, lanes
from duly.metrics.vitals import Vitals

QUEUES = 100


class Patient(Protocol):
    """Something that can say how it is: a worker."""

    def vitals(self) -> Vitals: ...


class Reading(NamedTuple):
    """One value of one metric; labels in the order of the catalogue."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class Measures:
    """Everything that can be read about one application from one process."""

    def __init__(self, app: App, worker: Patient | None = None, *, counts_runs: bool = True) -> None:
        self.tally = Tally()
        self.lookout = Lookout(app)
        self._worker = worker
        self._lanes = lanes()
        self._queues = Room(QUEUES, OTHER)
        self.close: Callable[[], None] = app.events.subscribe(self.tally) if counts_runs else lambda: None
        """Count no more."""

    def vitals(self) -> Vitals | None:
        """How the worker is, if there is one."""
        return None if self._worker is None else self._worker.vitals()

    def of_worker(self) -> Iterator[Reading]:
        """About the worker of this process."""
        if (vitals := self.vitals()) is None:
            return
        yield Reading(catalogue.CAN_CLAIM, (), float(vitals.can_claim))
        if vitals.lease_margin is not None:
            yield Reading(catalogue.MARGIN, (), vitals.lease_margin)
        yield Reading(catalogue.SLOTS, (), vitals.slots)
        yield Reading(catalogue.RUNNING, (), vitals.running)
        yield Reading(catalogue.HELD, (), vitals.held)

    def of_store(self) -> Iterator[Reading]:
        """About the store, the same from every process that reads it."""
        sight = self.lookout.look()
        yield Reading(catalogue.UP, (), float(self.lookout.is_up))
        if sight is None:
            return
        yield Reading(catalogue.LOOK_AGE, (), self.lookout.age_of(sight))
        yield from self._jobs(sight)
        yield from self._lags(sight)
        yield from _counts(sight)
        yield from _outbox(sight)

    def _jobs(self, sight: Sight) -> Iterator[Reading]:
        counts: Counter[tuple[str, str, State]] = Counter()
        for (task, queue, state), number in sight.census.jobs.items():
            if queue not in ENGINE_QUEUES:
                counts[*self._lanes.place((task, queue)), state] += number
        for (task, queue, state), number in counts.items():
            yield Reading(catalogue.JOBS, (task, queue, str(state)), number)

    def _lags(self, sight: Sight) -> Iterator[Reading]:
        """Also of queues where nothing is late: a line that falls to zero says so, one that ends does not."""
        due = sight.census.oldest_due
        lags: dict[str, float] = {}
        for queue in {queue for _, queue, _ in sight.census.jobs} - set(ENGINE_QUEUES):
            late = (sight.now - due[queue]).total_seconds() if queue in due else 0.0
            name = self._queues.place(queue)
            lags[name] = max(late, lags.get(name, 0.0))
        for queue, late in lags.items():
            yield Reading(catalogue.LAG, (queue,), late)


def _counts(sight: Sight) -> Iterator[Reading]:
    live = sum(worker.has_lease for worker in sight.workers)
    yield Reading(catalogue.WORKERS, ("live",), live)
    yield Reading(catalogue.WORKERS, ("lost",), len(sight.workers) - live)
    held = Counter(str(switch.scope) for switch in sight.switches)
    for scope in ("task", "queue"):
        yield Reading(catalogue.PAUSED, (scope,), held[scope])
    yield Reading(catalogue.REFUSED, (), sight.census.refused)
    yield Reading(catalogue.SUPERSEDED, (), sight.census.superseded)
    yield Reading(catalogue.SUPPRESSED, (), sight.census.suppressed)


def _outbox(sight: Sight) -> Iterator[Reading]:
    if (backlog := sight.backlog) is not None:
        yield Reading(catalogue.OUTBOX, (), backlog.waiting)
        yield Reading(catalogue.OUTBOX_AGE, (), backlog.oldest.total_seconds())
        yield Reading(catalogue.OUTBOX_ASIDE, (), backlog.aside)
