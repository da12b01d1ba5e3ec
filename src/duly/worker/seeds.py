"""What must exist without anybody asking: automatic perpetuals, and the schedules' own jobs."""

from __future__ import annotations

from dataclasses import replace

from duly import codec
from duly.app import App
from duly.job import Clash, Request
from duly.schedules import seed
from duly.task import build_request
from duly.wishes import Wishes


def seeds(app: App) -> list[Request]:
    """Requests that take effect only where neither a job nor a stop marker exists."""
    automatic = [task for task in app.tasks.values() if task.cycle is not None and task.cycle.automatic]
    arguments = codec.pack((), {})
    perpetuals = [replace(build_request(task, Wishes(), arguments), clash=Clash.SEED) for task in automatic]
    return [*perpetuals, *(seed(name) for name in app.schedule_terms)]
