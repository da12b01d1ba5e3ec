"""`manage.py migrate` makes what executions need, out of the ledger's own files."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from duly.django import migrations
from duly.django.views import ExecutionsView
from duly.ledger.texts import migrations as steps_of


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_step_of_the_ledger_is_a_migration(dialect: str) -> None:
    operations: list[Any] = []
    for module in pkgutil.iter_modules(migrations.__path__):
        found: Any = importlib.import_module(f"duly.django.migrations.{module.name}")
        operations += found.Migration.operations
    applied = {one.number for one in operations if isinstance(one, ExecutionsView)}

    assert {step.number for step in steps_of(dialect)} == applied
