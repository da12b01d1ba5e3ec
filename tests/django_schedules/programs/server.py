"""A server that serves a request, forks, and serves one in the child. Prints which threads there are when."""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
from typing import Any

importlib.import_module("django").setup()

signals: Any = importlib.import_module("django.core.signals")
utils: Any = importlib.import_module("django.test.utils")
connections: Any = importlib.import_module("django.db").connections


def schedulers() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name == "duly-scheduler")


def serve() -> None:
    """What a handler does at the beginning of a request."""
    signals.request_started.send(sender=None, environ={})


told: dict[str, Any] = {"before": schedulers()}
utils.setup_test_environment()
serve()
told["in tests"] = len(schedulers())
utils.teardown_test_environment()
serve()
serve()
told["in parent"] = schedulers()
connections.close_all()
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    before = schedulers()
    serve()
    os.write(writing, json.dumps([schedulers(), before]).encode())
    os._exit(0)
told["in child"] = json.loads(os.read(reading, 1000))
os.waitpid(child, 0)
from duly.django.models import TaskExecution  # noqa: E402

until = time.monotonic() + 60
while not TaskExecution.objects.exists() and time.monotonic() < until:
    time.sleep(0.05)
print(json.dumps(told), flush=True)
