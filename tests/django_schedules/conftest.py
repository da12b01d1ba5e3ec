"""The tests' Django project, in this process on SQLite files and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.django.site import set_up

set_up()

from tests.django.project.shop.models import Mark  # noqa: E402
from tests.django_schedules.databases import connections, with_postgres  # noqa: E402


@pytest.fixture(params=["sqlite", "postgres"])
def alias(request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """A database of Django's, without any marks."""
    name = "default" if request.param == "sqlite" else with_postgres()
    Mark.objects.using(name).all().delete()
    yield name
    assert not connections[name].in_atomic_block
    connections[name].close()
