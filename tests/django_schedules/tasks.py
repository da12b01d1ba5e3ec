"""Tasks that leave marks. Modules of tests schedule them; nothing here is scheduled by itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tests.django.project.shop.models import Mark

from duly.django import exactly_once
from duly.django import task as our_task
from duly.django.compat import PACKAGE

_task: Any = importlib.import_module(PACKAGE).task


def task() -> Callable[[Any], Any]:
    """Django's own decorator, whichever package has it."""
    made: Callable[[Any], Any] = _task()
    return made


@task()
def plain(text: str = "plain") -> None:
    """Trusts its backend."""
    Mark.objects.create(text=text)


@task()
@exactly_once
def guarded(text: str = "guarded") -> None:
    """Has one effect per execution."""
    Mark.objects.create(text=text)
    if text == "fails":
        raise ValueError("after the effect")


@task()
@exactly_once(using="other")
def elsewhere(text: str = "elsewhere") -> None:
    """Its effects are in another database."""
    Mark.objects.using("other").create(text=text)


@our_task(redact=["pin"])
def hush(pin: str, *, password: str, note: str) -> None:
    """Has arguments that are nobody's business."""
