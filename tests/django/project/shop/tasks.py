"""Tasks of every sort."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.django.project.shop.models import Mark

from duly import Retry
from duly.context import bound
from duly.django import task
from duly.django.compat import connections

ORDER: list[str] = []
CONNECTIONS: list[Any] = []
BOUND: list[dict[str, Any]] = []


class Refused(Exception):
    """What a system outside says."""


@task
def add(one: int, two: int) -> int:
    return one + two


@task(takes_context=True)
def who(context: Any) -> list[Any]:
    return [context.attempt, context.task_result.id, str(context.task_result.status)]


@task
async def later(text: str) -> str:
    return text.upper()


@task
def fails(text: str) -> None:
    raise Refused(text)


@task
def leaves() -> None:
    raise SystemExit(3)


@task
def odd_value() -> Any:
    return datetime.now(UTC)


@task
def mark(text: str, database: str = "default") -> None:
    Mark.objects.using(database).create(text=text)


@task(retry=Retry(on=Refused, attempts=3, backoff="fixed", first="0s"), takes_context=True)
def stubborn(context: Any, succeeds_at: int) -> int:
    if context.attempt < succeeds_at:
        raise Refused(f"attempt {context.attempt}")
    return int(context.attempt)


@task(delivery="exactly_once")
def mark_once(text: str, database: str = "default", *, fails: bool = False) -> None:
    Mark.objects.using(database).create(text=text)
    if fails:
        raise Refused(text)


@task(hard_limit="1s")
def endless() -> None:
    time.sleep(60)


@task(executor="process")
def elsewhere() -> int:
    return os.getpid()


@task(queue_name="io", priority=10, key="the one", overlap="skip", expires="1h")
def worded(text: str = "") -> str:
    return text


@task
def hold(path: str) -> None:
    """The first run says which process it is in, and stays; the next one ends."""
    if not Path(path).exists():
        Path(path).write_text(str(os.getpid()))
        time.sleep(600)
    Mark.objects.create(text="held")


@task(takes_context=True)
def noted(context: Any, text: str) -> None:
    ORDER.append(text)


@task
def look_at_connections() -> None:
    Mark.objects.count()
    CONNECTIONS.append(connections["default"])


@task(keep_result=None)
def keeps_nothing() -> Any:
    return object()


@task
def bound_there() -> None:
    BOUND.append(dict(bound()))
    if len(BOUND) == 1:
        bound_there.enqueue()


@task
async def waits() -> None:
    await asyncio.sleep(60)


def plain_function() -> None:
    raise AssertionError("nobody may call this")


elsewhere_named = task(plain_function)
