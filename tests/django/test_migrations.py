"""`manage.py migrate` makes the tables of the stores, out of the same files."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from tests.django.site import Site, call
from tests.django.test_transactions import settings

from duly.django import compat, migrations
from duly.django.steps import LAYOUTS, Step, missing_steps


def test_the_engine_finds_its_tables_where_migrate_made_them(tmp_path: Path) -> None:
    site = Site(tmp_path)

    site.manage("migrate", "-v", "0")
    answer = site.shell(
        "from duly.django import engine; print(engine().store.pending(), engine().jobs.list())"
    )

    assert answer.split() == ["[]", "[]"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_every_step_of_a_store_is_a_migration(layout: str, vendor: str) -> None:
    operations: list[Any] = []
    for module in pkgutil.iter_modules(migrations.__path__):
        found: Any = importlib.import_module(f"duly.django.migrations.{module.name}")
        operations += found.Migration.operations
    applied = {step.number for step in operations if isinstance(step, Step) and step.layout == layout}

    assert {step.number for step in LAYOUTS[layout].steps(vendor)} <= applied


class Nowhere:
    """A router that keeps the tables of Duly out of one database."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if (db, app_label) == ("sketch", "duly") else None


def test_a_router_decides_which_databases_get_the_tables(tmp_path: Path) -> None:
    handler: Any = compat.connections
    handler.settings["sketch"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "a.sqlite3")}
    handler.configure_settings(handler.settings)

    with settings(DATABASE_ROUTERS=["tests.django.test_migrations.Nowhere"]):
        call("migrate", database="sketch", verbosity=0)
        missing = missing_steps("sketch")
    tables = handler["sketch"].introspection.table_names()
    handler["sketch"].close()
    del handler["sketch"], handler.settings["sketch"]

    assert [name for name in tables if name.startswith("duly_")] == []
    assert "shop_mark" in tables
    assert missing == []


def test_nothing_is_left_to_migrate() -> None:
    call("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_migrations_of_a_store_opened_before_are_not_made_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.shell("from duly.django import engine; engine().open()")

    site.manage("migrate", "-v", "0")

    assert site.shell("from duly.django import engine; print(engine().jobs.count())").strip() == "0"


def test_migrating_to_zero_takes_the_tables_away(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.manage("migrate", "-v", "0")

    site.manage("migrate", "-v", "0", "duly", "zero")
    tables = site.shell("from django.db import connection as c; print(c.introspection.table_names())")

    assert "duly_" not in tables
    assert "shop_mark" in tables
