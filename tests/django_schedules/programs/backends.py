"""Tasks for a process of its own, whose effects say which execution they are of."""

from __future__ import annotations

import os
import time
from typing import Any

from tests.django.project.shop.models import Mark
from tests.django_schedules.tasks import task

from duly import Receipt, current_receipt
from duly.django import exactly_once


@task()
@exactly_once
def bill(receipt: Receipt) -> None:
    """One effect for each execution."""
    Mark.objects.create(text=f"{receipt.id}")


@task()
@exactly_once
def slow(folder: str) -> None:
    """Says that it began, and goes on when it may."""
    with open(os.path.join(folder, "begun"), "a") as file:
        file.write(f"{os.getpid()}\n")
    until = time.monotonic() + 60
    while not os.path.exists(os.path.join(folder, "go")) and time.monotonic() < until:
        time.sleep(0.01)
    Mark.objects.create(text=str(current_receipt().id))


@task()
def note(text: str) -> None:
    """Trusts its backend."""
    Mark.objects.create(text=text)


def texts() -> list[str]:
    """The effects there are."""
    found: Any = Mark.objects.values_list("text", flat=True)
    return sorted(found)
