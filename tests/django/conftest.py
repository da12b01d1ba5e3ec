"""The project is set up before the test modules are imported: they import its models and tasks."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from tests.django.site import add_postgres, set_up

set_up()

BACKENDS = ["default", pytest.param("postgres", marks=pytest.mark.postgres)]


def empty(alias: str) -> None:
    """No job and no effect of another test."""
    from tests.django.project.shop.models import Mark
    from tests.django.project.shop.tasks import BOUND, CONNECTIONS, ORDER

    from duly.django import engine
    from duly.stores.contract import Delete, Selection

    store = engine(alias).store
    store.run(store.amend(Selection(), Delete()))
    Mark.objects.using(alias).all().delete()
    ORDER.clear()
    CONNECTIONS.clear()
    BOUND.clear()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Generator[str]:
    """The alias of a backend, and of the database its jobs are in."""
    if request.param == "postgres":
        add_postgres()
    empty(request.param)
    yield request.param
    _close()


@pytest.fixture
def default() -> Generator[str]:
    """The backend on SQLite alone."""
    empty("default")
    yield "default"
    _close()


def _close() -> None:
    from django.db import connections

    every: Any = connections
    every.close_all()
