"""Two workers of RQ get one execution. Prints what the second had done while the first was in the body."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

importlib.import_module("django").setup()
importlib.import_module("django.core.management").call_command("migrate", verbosity=0)

import django_rq  # pyright: ignore[reportMissingTypeStubs]  # noqa: E402
from tests.django_schedules.clockwork import Clockwork  # noqa: E402
from tests.django_schedules.programs import backends  # noqa: E402

from duly.django.models import TaskExecution  # noqa: E402

FOLDER = Path(os.environ["DULY_SITE_FOLDER"])
COMMAND = ["rqworker", "default", "--burst", "--job-class", "django_tasks_rq.Job", "-v", "0"]


def worker() -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.django.project.manage", *COMMAND]
    return subprocess.Popen(words, stdout=sys.stderr)


def wait_for(is_so: Any) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


clockwork = Clockwork()
clockwork.schedule(backends.slow, name="slow", backend="rq", kwargs={"folder": str(FOLDER)})
clockwork.tick()
clockwork.tick(minutes=1)
queue: Any = django_rq.get_queue("default")
queue.connection.rpush(queue.key, *queue.job_ids)
backends.note.using(backend="rq").enqueue("other work")
first, second = worker(), worker()
wait_for((FOLDER / "begun").exists)
wait_for(lambda: backends.texts() == ["other work"])
wait_for(lambda: first.poll() is not None or second.poll() is not None)
meanwhile = {"marks": backends.texts(), "begun": len((FOLDER / "begun").read_text().split())}
(FOLDER / "go").touch()
codes = [first.wait(60), second.wait(60)]
rows = [[row.status, row.claims] for row in TaskExecution.objects.all()]
begun = len((FOLDER / "begun").read_text().split())
print(
    json.dumps(
        {"meanwhile": meanwhile, "marks": backends.texts(), "rows": rows, "begun": begun, "codes": codes}
    )
)
clockwork.close()
