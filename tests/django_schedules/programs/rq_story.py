"""Ticks on a real Redis: each delivered twice, a worker killed in the body. Prints what came of it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any

importlib.import_module("django").setup()
importlib.import_module("django.core.management").call_command("migrate", verbosity=0)

import django_rq  # pyright: ignore[reportMissingTypeStubs]  # noqa: E402
from tests.django_schedules.clockwork import Clockwork  # noqa: E402
from tests.django_schedules.programs import backends  # noqa: E402

from duly.django import executions  # noqa: E402
from duly.django.models import TaskExecution  # noqa: E402

TICKS = 4


def work(*words: str, **variables: str) -> None:
    """A real worker of RQ, which forks for every job, until its queue is empty."""
    command = ["rqworker", "default", "--burst", "--job-class", "django_tasks_rq.Job", "-v", "0", *words]
    subprocess.run(
        [sys.executable, "-m", "tests.django.project.manage", *command],
        env={**os.environ, **variables}, check=True, timeout=60, stdout=sys.stderr,
    )  # fmt: skip


def deliver_twice() -> int:
    """Push what is in the queue once more, as a broker does that lost an acknowledgement."""
    queue: Any = django_rq.get_queue("default")
    ids = queue.job_ids
    queue.connection.rpush(queue.key, *ids)
    return len(ids)


clockwork = Clockwork()
clockwork.schedule(backends.bill, name="billing", backend="rq")
clockwork.tick()
for _ in range(TICKS):
    clockwork.tick(minutes=1)
delivered = deliver_twice()
# Every fork counts for itself, so this one takes a single job, and dies between its effect and the commit.
work("--max-jobs", "1", DULY_FAILPOINTS=f"before_settle=exit task={backends.bill.module_path}")
after_death = backends.texts()
work()
until = time.monotonic() + 60
while TaskExecution.objects.exclude(status="completed").exists() and time.monotonic() < until:
    if executions.ledger().sweep().handed_over:  # when the dead worker's lease is over
        work()
    time.sleep(0.1)
rows = [[row.id, row.status, row.claims] for row in TaskExecution.objects.order_by("id")]
print(
    json.dumps({"delivered": delivered, "after_death": after_death, "marks": backends.texts(), "rows": rows})
)
clockwork.close()
