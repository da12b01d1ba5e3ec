"""Every metric in one table: what is exposed, documented and drawn is checked against it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """How values of a metric behave."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric, by its name in Prometheus and in OpenTelemetry."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    otel: str = ""
    """Empty where OpenTelemetry has another way to say it."""


RUNS: Final = Metric(
    "duly_runs_total", Kind.COUNTER, ("task", "queue", "outcome"),
    "Runs that ended in this process.", "messaging.client.consumed.messages",
)  # fmt: skip
DURATION: Final = Metric(
    "duly_run_duration_seconds", Kind.HISTOGRAM, ("task",),
    "How long bodies took.", "messaging.process.duration",
)  # fmt: skip
WAIT: Final = Metric(
    "duly_run_wait_seconds", Kind.HISTOGRAM, ("task",),
    "How long after their due time first tries started.", "duly.run.wait",
)  # fmt: skip
CAN_CLAIM: Final = Metric(
    "duly_worker_can_claim", Kind.GAUGE, (), "1 while this worker takes work.", "duly.worker.can_claim"
)
MARGIN: Final = Metric(
    "duly_worker_lease_margin_seconds", Kind.GAUGE, (),
    "How long this worker may go on without a renewal of its lease.", "duly.worker.lease_margin",
)  # fmt: skip
SLOTS: Final = Metric(
    "duly_worker_slots", Kind.GAUGE, (), "How many runs this worker has room for.", "duly.worker.slots"
)
RUNNING: Final = Metric(
    "duly_worker_running", Kind.GAUGE, (), "How many bodies run in this worker.", "duly.worker.running"
)
HELD: Final = Metric(
    "duly_worker_held", Kind.GAUGE, (), "How many claims this worker has in hand.", "duly.worker.held"
)
JOBS: Final = Metric(
    "duly_jobs", Kind.GAUGE, ("task", "queue", "state"), "Jobs in the store, finished ones until pruned.",
    "duly.jobs",
)  # fmt: skip
LAG: Final = Metric(
    "duly_queue_lag_seconds", Kind.GAUGE, ("queue",), "For how long the oldest ready job has been due.",
    "duly.queue.lag",
)  # fmt: skip
WORKERS: Final = Metric(
    "duly_workers", Kind.GAUGE, ("state",), "Workers of the store, live and lost.", "duly.workers"
)
PAUSED: Final = Metric("duly_held", Kind.GAUGE, ("scope",), "Tasks and queues that are held.", "duly.held")
REFUSED: Final = Metric(
    "duly_refused_writes_total", Kind.COUNTER, (), "Late writes the store refused.", "duly.refused_writes"
)
SUPERSEDED: Final = Metric(
    "duly_superseded_total", Kind.COUNTER, (), "Jobs that a newer request replaced.", "duly.superseded"
)
SUPPRESSED: Final = Metric(
    "duly_suppressed_total", Kind.COUNTER, (), "Requests that a guard kept back.", "duly.suppressed"
)
OUTBOX: Final = Metric(
    "duly_outbox_waiting", Kind.GAUGE, (), "Requests in the outbox.", "duly.outbox.waiting"
)
OUTBOX_AGE: Final = Metric(
    "duly_outbox_oldest_seconds", Kind.GAUGE, (), "How old the oldest of them is.", "duly.outbox.oldest"
)
OUTBOX_ASIDE: Final = Metric(
    "duly_outbox_set_aside", Kind.GAUGE, (), "Requests that could not be delivered.", "duly.outbox.set_aside"
)
UP: Final = Metric("duly_store_up", Kind.GAUGE, (), "1 if the store answered the last look.", "duly.store.up")
LOOK_AGE: Final = Metric(
    "duly_store_look_age_seconds", Kind.GAUGE, (), "How old what is told of the store is.", ""
)

PROCESS: Final = (RUNS, DURATION, WAIT)
WORKER: Final = (CAN_CLAIM, MARGIN, SLOTS, RUNNING, HELD)
STORE: Final = (
    JOBS, LAG, WORKERS, PAUSED, REFUSED, SUPERSEDED, SUPPRESSED,
    OUTBOX, OUTBOX_AGE, OUTBOX_ASIDE, UP, LOOK_AGE,
)  # fmt: skip
METRICS: Final = PROCESS + WORKER + STORE

BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds, of both histograms: from a cheap call to a report that takes all night."""
