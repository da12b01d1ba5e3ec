"""Reading the tables of django-celery-beat, in whatever database Django has them. Nothing is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import resources
from typing import Any
from urllib.parse import quote

from duly.cli.exits import Refusal, UsageError
from duly.errors import MissingExtra, StoreUnavailable
from duly.stores.postgres import address as postgres
from duly.stores.sqlite import address as sqlite
from duly.urls import masked

Row = dict[str, Any]


def read_rows(url: str) -> list[Row]:
    """All periodic tasks, each with its schedule."""
    if url.startswith("sqlite:"):
        return _from_sqlite(url)
    if url.partition(":")[0].partition("+")[0] in postgres.SCHEMES:
        return _from_postgres(url)
    raise UsageError(
        f"{masked(url)!r} names no database that can be read here: postgresql://… or sqlite:///file.db. Rows "
        "of another one can be copied with `manage.py dumpdata django_celery_beat` into one of these"
    )


def _from_sqlite(url: str) -> list[Row]:
    path = sqlite.parse(url).path
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            return _named(connection.execute(_sql()))
    except sqlite3.Error as error:
        _refuse_without_tables(url, error, "no such table")
        raise StoreUnavailable(f"{masked(url)} cannot be read: {error}") from error


def _from_postgres(url: str) -> list[Row]:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("reading PostgreSQL", "postgres") from None
    try:
        with psycopg.connect(postgres.parse(url).conninfo) as connection:
            connection.read_only = True
            return _named(connection.execute(_sql().encode()))
    except psycopg.Error as error:
        _refuse_without_tables(url, error, "does not exist")
        raise StoreUnavailable(f"{masked(url)} cannot be read: {error}") from error


def _refuse_without_tables(url: str, error: Exception, words: str) -> None:
    if words in str(error) and "django_celery_beat" in str(error):
        raise Refusal(
            f"{masked(url)} has no tables of django-celery-beat 2 or newer: {str(error).splitlines()[0]}. "
            "Name the database that Django has them in"
        ) from error


def _named(cursor: Any) -> list[Row]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _sql() -> str:
    return (resources.files(__package__ or "") / "rows.sql").read_text(encoding="utf-8")
