"""The Orders example as the tests use it: a queue, a database and a cloud of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from tests.stories.arrange import until

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "orders"

PRELUDE: Final = """
import json, time
from datetime import timedelta
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from orders import cloud, signals, tasks
from orders.models import Lease
def user(name):
    return User.objects.get_or_create(username=name)[0]
def lease(number, name="ann"):
    return Lease.objects.create(number=number, requested_by=user(name))
def seen(pk):
    return Lease.objects.filter(pk=pk).values().get()
"""


@cache
def cloud_module() -> Any:
    """The example's own stand-in for the cloud."""
    spec = importlib.util.spec_from_file_location("orders_cloud_stub", EXAMPLE / "cloud_stub.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def running_cloud() -> Generator[Any]:
    """A cloud in this process, so that tests see what it is asked and decide what it answers."""
    cloud = cloud_module().Cloud()
    thread = threading.Thread(target=cloud.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield cloud
    finally:
        for gate in cloud.gates.values():
            gate.set()
        cloud.shutdown()
        thread.join()
        cloud.server_close()


class Console:
    """A process with the project loaded, asked in Python."""

    def __init__(self, variables: dict[str, str], prelude: str = PRELUDE) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.orders.console"],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ask(prelude)

    def ask(self, code: str, **words: Any) -> Any:
        """Run code with these names set; what it left in `answer`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        given = "\n".join(f"{word} = {value!r}" for word, value in words.items())
        self._process.stdin.write(json.dumps(f"{given}\n{dedent(code)}") + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert "error" not in said, said["error"]
        return said["answer"]

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@dataclass
class Project:
    """The example with one choice of queue and database."""

    folder: Path
    cloud: Any
    queue: str = "duly"
    environment: dict[str, str] = field(default_factory=dict[str, str])
    started: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _serves: dict[str, str] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its processes."""
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "orders_site.settings",
            "PYTHONPATH": f"{EXAMPLE}{os.pathsep}{ROOT}",
            "ORDERS_DATABASE": f"sqlite:///{self.folder}/orders.sqlite3",
            "ORDERS_QUEUE": self.queue,
            "ORDERS_CLOUD_URL": self.cloud.url,
            "ORDERS_LEASE": "2s",
            **self.environment,
        }

    @property
    def log(self) -> str:
        """What the workers said."""
        return "".join(file.read_text() for file in sorted(self.folder.glob("worker*.log")))

    @property
    def is_celery(self) -> bool:
        """Whether Celery carries the tasks."""
        return self.queue == "celery"

    def migrate(self) -> None:
        """Make the tables."""
        words = [sys.executable, "manage.py", "migrate", "-v", "0"]
        made = subprocess.run(
            words, cwd=EXAMPLE, env=self.variables, timeout=100, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr

    def serve(self, **variables: str) -> None:
        """Have one worker, with these variables: the one that serves, or a new one in its place."""
        if self._serves != variables or self.started[-1].poll() is not None:
            self.stop()
            self.start_worker(**variables)
            self._serves = variables

    def start_worker(self, **variables: str) -> subprocess.Popen[bytes]:
        """A worker of whatever queue it is."""
        words = ["manage.py", "duly_worker", "--no-reload"]
        if self.is_celery:
            words = ["-m", "celery", "-A", "orders_site.celery", "worker", "-c", "2", "--loglevel", "INFO"]
        with (self.folder / f"worker{len(self.started)}.log").open("wb") as file:
            worker = subprocess.Popen(
                [sys.executable, *words],
                cwd=EXAMPLE,
                env={**self.variables, **variables},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.started.append(worker)
        return worker

    def console(self, **variables: str) -> Console:
        """A process to ask."""
        return Console({**self.variables, **variables})

    def stop(self) -> None:
        """Every worker that was started here."""
        for worker in self.started:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self.started:
            worker.wait(60)


def kill_group(worker: subprocess.Popen[bytes]) -> None:
    """The worker and whatever it started, without a word: as the kernel does when memory is out."""
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(60)


__all__ = ["Console", "Project", "kill_group", "running_cloud", "until"]
