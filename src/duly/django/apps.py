"""The Django application `duly`."""

from __future__ import annotations

from django.apps import AppConfig


class DulyConfig(AppConfig):  # type: ignore[misc]
    """Brings the migrations, the checks and the commands."""

    name = "duly.django"
    label = "duly"
    verbose_name = "Duly"
    default_auto_field = "django.db.models.BigAutoField"  # pyright: ignore[reportAssignmentType]

    def ready(self) -> None:
        """Register what Django asks for when it starts; nothing here opens a connection."""
        from duly.django import checks, compat, reacting, scheduler, working

        compat.listen()
        checks.register()
        scheduler.autostart()
        reacting.keep_in_step()
        working.before_serving.append(scheduler.learn)
