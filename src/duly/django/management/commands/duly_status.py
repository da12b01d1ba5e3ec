"""`manage.py duly_status`: how many jobs wait, run and fail, and who works."""

from __future__ import annotations

import importlib
from typing import Any

from duly.django.engines import engine, our_backends
from duly.django.looking import overview

BaseCommand: Any = importlib.import_module("django.core.management.base").BaseCommand


class Command(BaseCommand):  # type: ignore[misc]
    """A look at every engine of the project."""

    help = "Show jobs by queue and state, workers, and what is held."

    def add_arguments(self, parser: Any) -> None:
        """Which one."""
        parser.add_argument("--backend", help="only this backend in TASKS")

    def handle(self, **options: Any) -> None:
        """Print one block for each store."""
        chosen: list[str | None] = [options["backend"]] if options["backend"] else [*our_backends()]
        aliases = chosen or [None]
        for app in dict.fromkeys(engine(alias) for alias in aliases):
            for line in overview(app):
                self.stdout.write(line)
