"""The admin: jobs, schedules, executions and workers."""

from __future__ import annotations

import importlib
from typing import Any

from duly.django.discretion import wish_shown
from duly.django.doors import Door, ModelAdmin, messages, note
from duly.django.engines import database_engine
from duly.django.executions import ledger, main_database
from duly.django.models import DatabaseSchedule, Job, Schedule, TaskExecution, Worker
from duly.django.panels import JobPanel, SchedulePanel, WorkerPanel
from duly.django.scheduling import bring, furnish

admin: Any = importlib.import_module("django.contrib.admin")
transaction: Any = importlib.import_module("django.db.transaction")


class JobAdmin(Door):
    """Jobs of the engine."""

    panel = JobPanel()


class ScheduleAdmin(Door):
    """Schedules as they stand, of code and database."""

    panel = SchedulePanel()


class WorkerAdmin(Door):
    """Who is at work."""

    panel = WorkerPanel()


class DatabaseScheduleAdmin(ModelAdmin):  # type: ignore[misc]
    """Schedules that people write."""

    list_display = ("name", "task", "cron", "timezone", "enabled", "updated_at")
    list_filter = ("enabled", "timezone", "backend")
    search_fields = ("name", "task", "cron")

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        """An edit is in force at once; a new row when a scheduler has read it, seconds later."""
        obj.save(using=main_database())
        if obj.enabled:
            transaction.on_commit(lambda: _bring(obj), using=main_database(), robust=True)

    def get_queryset(self, request: Any) -> Any:
        """From the database that schedulers read."""
        return DatabaseSchedule.objects.using(main_database())


def _bring(row: Any) -> None:
    app = database_engine()
    furnish(app)
    bring(app, [row.declared()])


class TaskExecutionAdmin(ModelAdmin):  # type: ignore[misc]
    """What ticks have made. Nothing is edited; what was given up can be handed over again."""

    list_display = ("id", "task", "status", "claims", "hand_overs", "created_at", "completed_at")
    list_filter = ("status", "created_at")
    search_fields = ("id", "task")
    exclude = ("payload",)
    readonly_fields = ("arguments",)
    actions = ("hand_over_again",)

    def get_queryset(self, request: Any) -> Any:
        """Of the schedules' own database; those of tasks with effects elsewhere are there."""
        return TaskExecution.objects.using(main_database())

    def has_add_permission(self, request: Any) -> bool:
        """The scheduler makes them."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Nobody edits them."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """The sweep deletes them."""
        return False

    def has_retry_permission(self, request: Any) -> bool:
        """Who may change an execution may have it tried again."""
        return bool(request.user.has_perm("duly.change_taskexecution"))

    def arguments(self, execution: Any) -> str:
        """What it is handed over with."""
        return wish_shown(execution.wish)

    def hand_over_again(self, request: Any, queryset: Any) -> None:
        """The next sweep hands it over, with all its tries."""
        revived = [one.id for one in queryset if ledger().retry(one.id)]
        note(request, TaskExecution, revived, "Hand over again")
        if revived:
            messages.success(request, f"Handed over again: {len(revived)}.")
        if left := queryset.count() - len(revived):
            messages.warning(request, f"Not exhausted, left as they are: {left}.")

    hand_over_again.short_description = "Hand over again what was given up"  # type: ignore[attr-defined]
    hand_over_again.allowed_permissions = ("retry",)  # type: ignore[attr-defined]


admin.site.register(Job, JobAdmin)
admin.site.register(Schedule, ScheduleAdmin)
admin.site.register(Worker, WorkerAdmin)
admin.site.register(DatabaseSchedule, DatabaseScheduleAdmin)
admin.site.register(TaskExecution, TaskExecutionAdmin)
