"""A task of Django's that rows of django-celery-beat name."""

from __future__ import annotations

from duly.django import task


@task(queue_name="default")
def report(number: int = 0, *, deep: bool = False) -> None: ...
