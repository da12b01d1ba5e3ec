"""The tests' Django project, in this process on SQLite files and on PostgreSQL."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from typing import Any

import pytest
from tests.django.site import set_up

set_up()

from tests.django.project.shop.models import Mark  # noqa: E402
from tests.django_schedules.clockwork import Clockwork  # noqa: E402
from tests.django_schedules.databases import connections, with_postgres  # noqa: E402

from duly.django import compat, executions, scheduling  # noqa: E402

override_settings: Any = importlib.import_module("django.test").override_settings


@pytest.fixture(params=["sqlite", "postgres"])
def alias(request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """A database of Django's, without any marks."""
    name = "default" if request.param == "sqlite" else with_postgres()
    Mark.objects.using(name).all().delete()
    yield name
    assert not connections[name].in_atomic_block
    connections[name].close()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> scheduling.Registry:
    """No schedules but those of the test."""
    fresh = scheduling.Registry()
    monkeypatch.setattr(scheduling, "registry", fresh)
    return fresh


@pytest.fixture
def clockwork(registry: scheduling.Registry) -> Generator[Clockwork, None, None]:
    """A scheduler's engine whose clock the test moves, with a ledger that is empty."""
    Mark.objects.all().delete()
    Mark.objects.using("other").all().delete()
    made = Clockwork()
    made.clear_executions()
    yield made
    made.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executions count as lost at once."""
    settings = {"lost_after": "1ms", "redeliver_after": "1ms", "lease": "1s"}
    with override_settings(DULY={"executions": settings}):
        monkeypatch.setattr(executions, "_ledgers", {})
        executions.ledger()


@pytest.fixture
def sulking() -> Generator[Any, None, None]:
    """A backend "sulking" in TASKS; it takes everything until told otherwise."""
    from tests.django_schedules.sulking import Sulking

    backends = {**compat.settings.TASKS, "sulking": {"BACKEND": "tests.django_schedules.sulking.Sulking"}}
    with override_settings(TASKS=backends):
        yield Sulking
    Sulking.refusals = 0


Handed = Callable[[], list[Any]]


@pytest.fixture
def handed() -> Generator[Handed, None, None]:
    """What was enqueued so far, in whichever thread: a backend is one object per thread."""
    results: list[Any] = []

    def note(task_result: Any, **_: Any) -> None:
        results.append(task_result)

    enqueued = compat.signals().task_enqueued
    enqueued.connect(note)
    yield lambda: list(results)
    enqueued.disconnect(note)
