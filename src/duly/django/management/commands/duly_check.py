"""`manage.py duly_check`: is everything there that tasks need? Unlike `check` it asks databases."""

from __future__ import annotations

import importlib
from typing import Any

from duly.django.engines import our_backends
from duly.django.looking import examine

_management: Any = importlib.import_module("django.core.management.base")
BaseCommand: Any = _management.BaseCommand
CommandError: Any = _management.CommandError


class Command(BaseCommand):  # type: ignore[misc]
    """Says what is wrong and what to do about it."""

    help = "Check settings, store, tables, workers and waiting work. Ends with code 1 if something is wrong."
    requires_system_checks = ()

    def handle(self, **options: Any) -> None:
        """Look at every backend of ours."""
        findings = [(alias, finding) for alias in our_backends() for finding in examine(alias)]
        for alias, finding in findings:
            self.stdout.write(f"{'ok  ' if finding.is_well else 'FAIL'}  {alias}: {finding.text}")
            if finding.remedy:
                self.stdout.write(f"      → {finding.remedy}")
        if not findings:
            raise CommandError("TASKS names no backend of Duly. Set BACKEND to 'duly.django.DulyBackend'.")
        if not all(finding.is_well for _, finding in findings):
            raise CommandError("Something is wrong, see above.")
