"""Databases that an application keeps its own rows in: what the tests and their programs know of one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

TABLE: Final = "ledger_effects"


class Home(NamedTuple):
    """A database with a table of effects, where nothing keeps an effect from happening twice."""

    url: str
    namespace: str

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    @property
    def path(self) -> str:
        return urlsplit(self.url).path[1:]

    @property
    def insert(self) -> Any:
        """The statement of a body: what it was about, and who did it."""
        if self.is_sqlite:
            return f"insert into {TABLE} values (?, ?)"
        return sql.SQL("insert into {} values (%s, %s)").format(sql.Identifier(self.namespace, TABLE))

    def connect(self) -> Any:
        """A connection of the application's own; its transactions end by commit()."""
        return sqlite3.connect(self.path, timeout=60) if self.is_sqlite else psycopg.connect(self.url)

    def create(self) -> None:
        with closing(self.connect()) as connection:
            if self.is_sqlite:
                connection.execute(f"create table {TABLE} (what text, who text)")
            else:
                connection.execute(f'create schema "{self.namespace}"')
                connection.execute(f'create table "{self.namespace}".{TABLE} (what text, who text)')
            connection.commit()

    def destroy(self) -> None:
        if self.is_sqlite:
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            for schema in (self.namespace, f"{self.namespace}_ledger"):
                connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))

    def effects(self) -> list[tuple[str, str]]:
        """Every effect there is, by whom."""
        table = TABLE if self.is_sqlite else f'"{self.namespace}".{TABLE}'
        with closing(self.connect()) as connection:
            return [tuple(row) for row in connection.execute(f"select what, who from {table} order by 1, 2")]
