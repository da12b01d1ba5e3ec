"""`manage.py duly_worker`: run the tasks of a backend until told to stop."""

from __future__ import annotations

import importlib
import os
from typing import Any

from duly.django.compat import settings
from duly.django.working import Orders, serve

BaseCommand: Any = importlib.import_module("django.core.management.base").BaseCommand


class Command(BaseCommand):  # type: ignore[misc]
    """A worker for one backend of TASKS."""

    help = "Run the tasks of a backend. Ctrl-C or SIGTERM lets what runs finish, a second one hands it back."

    def add_arguments(self, parser: Any) -> None:
        """The words of `duly worker`, as far as they make sense here."""
        parser.add_argument("--backend", default=None, help="which backend in TASKS (the first of ours)")
        parser.add_argument("-c", "--concurrency", type=int, help="run so many at a time (20)")
        parser.add_argument("-q", "--queues", type=_names, help="serve only these queues: NAME,NAME")
        parser.add_argument("--burst", action="store_true", help="end when there is nothing to do")
        parser.add_argument("--name", help="a label for this worker (host:pid)")
        parser.add_argument("--grace", help="let running tasks finish for so long (30s)")
        parser.add_argument("--max-jobs", type=int, help="end after so many runs (a supervisor restarts it)")
        parser.add_argument(
            "--metrics-port", type=int, default=os.environ.get("DULY_METRICS_PORT"), metavar="N",
            help="where /metrics, /health and /live are (DULY_METRICS_PORT)",
        )  # fmt: skip
        parser.add_argument(
            "--metrics-host", default=os.environ.get("DULY_METRICS_HOST", "127.0.0.1"), metavar="HOST",
            help="the address for that port (127.0.0.1)",
        )  # fmt: skip
        parser.add_argument(
            "--reload", action="store_true", default=settings.DEBUG, dest="reload",
            help="start afresh when the code changes (as DEBUG says)",
        )  # fmt: skip
        parser.add_argument("--no-reload", action="store_false", dest="reload", help="stay as it is")

    def handle(self, **options: Any) -> None:
        """Serve."""
        orders = Orders(
            backend=options["backend"],
            concurrency=options["concurrency"],
            queues=options["queues"],
            burst=options["burst"],
            name=options["name"],
            grace=options["grace"],
            max_jobs=options["max_jobs"],
            metrics_port=options["metrics_port"],
            metrics_host=options["metrics_host"],
        )
        serve(
            orders,
            self.stdout.write if options["verbosity"] else lambda line: None,
            reloads=options["reload"] and not options["burst"],
            tells_runs=options["verbosity"] > 0,
        )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]
