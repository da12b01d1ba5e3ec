"""`manage.py duly_scheduler`: put executions of scheduled tasks, and hand over again what got lost."""

from __future__ import annotations

import importlib
from typing import Any

from duly.django.scheduler import Scheduler

_BaseCommand: Any = importlib.import_module("django.core.management.base").BaseCommand


class Command(_BaseCommand):  # type: ignore[misc]
    """Run a scheduler until SIGTERM or SIGINT."""

    help = "Run scheduled tasks at their times, on whatever backend they use. Any number may run at once."

    def add_arguments(self, parser: Any) -> None:
        """One option."""
        parser.add_argument("--burst", action="store_true", help="hand over what is due, then exit")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        Scheduler().run(burst=options["burst"])
