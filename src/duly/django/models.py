"""What people look at in Django's own terms: schedules in the database, executions, and doors of the admin.

`Job`, `Schedule` and `Worker` have no table: their pages ask the engine, which may live elsewhere.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from duly import codec
from duly.django import compat, scheduling
from duly.django.scheduling import LONGEST_NAME, Declared, declare
from duly.errors import DulyError

models: Any = importlib.import_module("django.db.models")
_Model: Any = models.Model
_exceptions: Any = importlib.import_module("django.core.exceptions")
ValidationError: Any = _exceptions.ValidationError

EXECUTIONS: Final = "duly_django_execution"
"""A view: the receipts of the ledger with their times as Django reads them."""


class DatabaseSchedule(_Model):  # type: ignore[misc]
    """A schedule that is kept in the database and edited in the admin."""

    name = models.CharField(max_length=LONGEST_NAME, unique=True)
    task = models.CharField(max_length=200, help_text="Where the task is defined: shop.tasks.send_report")
    cron = models.CharField(max_length=200, help_text="Five fields: minute hour day month weekday")
    timezone = models.CharField(max_length=63, default="UTC")
    args = models.JSONField(default=list, blank=True, help_text="Positional arguments, a JSON list")
    kwargs = models.JSONField(default=dict, blank=True, help_text="Keyword arguments, a JSON object")
    queue_name = models.CharField(max_length=100, blank=True, help_text="Empty: the task's own")
    priority = models.IntegerField(null=True, blank=True, help_text="-100 to 100; empty: the task's own")
    backend = models.CharField(max_length=100, blank=True, help_text="Of TASKS; empty: the task's own")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "duly"
        db_table = "duly_django_schedule"
        ordering = ("name",)
        verbose_name = "database schedule"

    def __str__(self) -> str:
        return f"{self.name} ({self.cron})"

    def clean(self) -> None:
        """Find every mistake that a scheduler would find."""
        if self.name in scheduling.registry:
            raise ValidationError(
                {"name": f"The code declares a schedule named {self.name!r}. Choose another name."}
            )
        try:
            self.declared()
        except (DulyError, _exceptions.ImproperlyConfigured) as error:
            raise ValidationError(str(error)) from error
        except compat.InvalidTask as error:
            raise ValidationError(str(error)) from error

    def declared(self) -> Declared:
        """As the engine wants it. Nothing before its creation counts as missed."""
        from duly.django.registry import load

        words = {"queue_name": self.queue_name, "priority": self.priority, "backend": self.backend}
        task = load(self.task).using(
            **{word: value for word, value in words.items() if value not in ("", None)}
        )
        times = {"cron": self.cron, "timezone": self.timezone, "start": self.created_at}
        return declare(task, self.name, (_list(self.args), _dict(self.kwargs)), times)


def _list(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise ValidationError({"args": f"{given!r} is no JSON list."})
    return given  # pyright: ignore[reportUnknownVariableType]


def _dict(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValidationError({"kwargs": f"{given!r} is no JSON object."})
    return given  # pyright: ignore[reportUnknownVariableType]


class TaskExecution(_Model):  # type: ignore[misc]
    """One instant of a schedule: made by the scheduler, completed with the task's effects. Read only."""

    class Status(models.TextChoices):  # type: ignore[misc]
        PENDING = "pending"
        COMPLETED = "completed"
        EXHAUSTED = "exhausted"

    id = models.CharField(max_length=300, primary_key=True)
    task = models.TextField()
    status = models.CharField(max_length=20, choices=Status.choices)
    claims = models.IntegerField(help_text="How often a worker began it")
    created_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True)
    hand_overs = models.IntegerField(help_text="How often it was handed to the backend")
    handed_over_at = models.DateTimeField(null=True)
    next_hand_over_at = models.DateTimeField(null=True)
    payload = models.TextField(null=True)

    class Meta:
        app_label = "duly"
        managed = False
        db_table = EXECUTIONS
        ordering = ("-created_at",)
        verbose_name = "execution"

    def __str__(self) -> str:
        return str(self.id)

    @property
    def wish(self) -> dict[str, Any]:
        """What is handed over: schedule, args, kwargs, queue_name, priority, backend."""
        return codec.unpack(self.payload)[1] if self.payload else {}


class Job(_Model):  # type: ignore[misc]
    """A door in the admin; jobs are the engine's."""

    id = models.CharField(max_length=64, primary_key=True)

    class Meta:
        app_label = "duly"
        managed = False
        db_table = "duly_django_no_job"
        default_permissions = ("view", "change")


class Schedule(_Model):  # type: ignore[misc]
    """A door in the admin; schedules are the engine's."""

    id = models.CharField(max_length=LONGEST_NAME, primary_key=True)

    class Meta:
        app_label = "duly"
        managed = False
        db_table = "duly_django_no_schedule"
        default_permissions = ("view", "change")


class Worker(_Model):  # type: ignore[misc]
    """A door in the admin; workers are the engine's."""

    id = models.CharField(max_length=64, primary_key=True)

    class Meta:
        app_label = "duly"
        managed = False
        db_table = "duly_django_no_worker"
        default_permissions = ("view",)
