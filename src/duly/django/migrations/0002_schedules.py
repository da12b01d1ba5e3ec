"""Schedules in the database, executions, and what the admin shows."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from duly.django.views import ExecutionsView

migrations: Any = importlib.import_module("django.db.migrations")
models: Any = importlib.import_module("django.db.models")
_Migration: Any = migrations.Migration


def _door(name: str, length: int, permissions: tuple[str, ...]) -> Any:
    return migrations.CreateModel(
        name,
        [("id", models.CharField(max_length=length, primary_key=True, serialize=False))],
        options={
            "db_table": f"duly_django_no_{name.lower()}",
            "managed": False,
            "default_permissions": permissions,
        },
    )


class Migration(_Migration):  # type: ignore[misc]
    """Beside the engine's own tables."""

    dependencies: ClassVar[list[Any]] = [("duly", "0001_start")]
    operations: ClassVar[list[Any]] = [
        ExecutionsView(1),
        migrations.CreateModel(
            "DatabaseSchedule",
            [
                (
                    "id",
                    models.BigAutoField(
                        primary_key=True, serialize=False, auto_created=True, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                (
                    "task",
                    models.CharField(
                        max_length=200, help_text="Where the task is defined: shop.tasks.send_report"
                    ),
                ),
                (
                    "cron",
                    models.CharField(max_length=200, help_text="Five fields: minute hour day month weekday"),
                ),
                ("timezone", models.CharField(max_length=63, default="UTC")),
                (
                    "args",
                    models.JSONField(default=list, blank=True, help_text="Positional arguments, a JSON list"),
                ),
                (
                    "kwargs",
                    models.JSONField(default=dict, blank=True, help_text="Keyword arguments, a JSON object"),
                ),
                (
                    "queue_name",
                    models.CharField(max_length=100, blank=True, help_text="Empty: the task's own"),
                ),
                (
                    "priority",
                    models.IntegerField(
                        null=True, blank=True, help_text="-100 to 100; empty: the task's own"
                    ),
                ),
                (
                    "backend",
                    models.CharField(max_length=100, blank=True, help_text="Of TASKS; empty: the task's own"),
                ),
                ("enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "db_table": "duly_django_schedule",
                "ordering": ("name",),
                "verbose_name": "database schedule",
            },
        ),
        migrations.CreateModel(
            "TaskExecution",
            [
                ("id", models.CharField(max_length=300, primary_key=True, serialize=False)),
                ("task", models.TextField()),
                (
                    "status",
                    models.CharField(
                        max_length=20,
                        choices=[
                            ("pending", "Pending"),
                            ("completed", "Completed"),
                            ("exhausted", "Exhausted"),
                        ],
                    ),
                ),
                ("claims", models.IntegerField(help_text="How often a worker began it")),
                ("created_at", models.DateTimeField()),
                ("completed_at", models.DateTimeField(null=True)),
                ("hand_overs", models.IntegerField(help_text="How often it was handed to the backend")),
                ("handed_over_at", models.DateTimeField(null=True)),
                ("next_hand_over_at", models.DateTimeField(null=True)),
                ("payload", models.TextField(null=True)),
            ],
            options={
                "db_table": "duly_django_execution",
                "managed": False,
                "ordering": ("-created_at",),
                "verbose_name": "execution",
            },
        ),
        _door("Job", 64, ("view", "change")),
        _door("Schedule", 200, ("view", "change")),
        _door("Worker", 64, ("view",)),
    ]
