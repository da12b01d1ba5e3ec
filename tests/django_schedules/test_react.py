"""Reactions to models, in processes of their own: triggers on a shared table would meet other tests."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.django.project.shop.models import Mark
from tests.django_schedules.test_backends import own_database, tell

from duly.django import react
from duly.errors import DefinitionError


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """What a process must be told to have this database for its own."""
    return {} if request.param == "sqlite" else own_database()


def test_rows_of_a_model_are_followed_and_migrate_keeps_them_followed(
    tmp_path: Path, database: dict[str, str]
) -> None:
    told: dict[str, Any] = tell("react_story", tmp_path, **database)

    assert told["after migrate"] > 0
    assert told["created"] == ["1 paid 1"]
    assert told["updated"] == ["2 paid 2"]
    assert told["rebuilt"] == 0
    assert told["in step"] == told["after migrate"]
    assert told["after"] == ["1 paid anew"]
    assert told["tasks"] == ["tests.django_schedules.programs.react_story.receipt"]


def test_a_field_that_the_model_has_not_is_refused_where_it_is_written() -> None:
    models: Any = importlib.import_module("django.db.models")

    with pytest.raises(DefinitionError, match="no field 'price'"):
        react(model=Mark, where=models.Q(text="x"), watch=["price"])
    with pytest.raises(DefinitionError, match="pass a model"):
        react(model="shop.Mark")
