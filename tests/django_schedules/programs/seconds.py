"""A task that runs every second, and leaves the id of its execution."""

from __future__ import annotations

from tests.django.project.shop.models import Mark
from tests.django_schedules.tasks import task

from duly import Receipt
from duly.django import exactly_once, scheduled_task


@scheduled_task(every="1s", name="second", backend="stock")
@task()
@exactly_once
def second(receipt: Receipt) -> None:
    Mark.objects.create(text=str(receipt.id))
