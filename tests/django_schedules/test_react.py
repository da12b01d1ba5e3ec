"""Reactions to models, in processes of their own: triggers on a shared table would meet other tests."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.django.project.shop.models import Mark
from tests.django.site import postgres_database
from tests.django_schedules.test_backends import tell
from tests.servers import postgres_url

from duly.django import react
from duly.errors import DefinitionError
from duly.ids import new_nonce


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """What a process must be told to have this database for its own."""
    if request.param == "sqlite":
        return {}
    name = f"react_{new_nonce()[:8]}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    words = {**postgres_database(postgres_url()), "NAME": name}
    return {"DULY_SITE_DATABASES": json.dumps({"default": words, "other": words})}


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
