"""From what a user hands over to a database: a URL, an alias of Django's, or an Engine of SQLAlchemy."""

from __future__ import annotations

import importlib.util
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from duly.errors import DefinitionError, MissingExtra
from duly.ledger.alchemy import AlchemyBodies, AsyncAlchemyBodies, EngineConnections, Place, understood
from duly.ledger.database import Bodies, Database
from duly.ledger.django.database import PREFIX as DJANGO
from duly.ledger.django.database import DjangoDatabase
from duly.ledger.sqlite.alchemy import perform_on, watch
from duly.ledger.sqlite.body import SqliteBodies
from duly.ledger.sqlite.database import SqliteDatabase
from duly.ledger.sqlite.database import dialect_for as sqlite_dialect
from duly.stores.drive import Operation
from duly.stores.sqlite import address as sqlite_address
from duly.urls import masked


def database_at(place: Any, namespace: str, patience: timedelta) -> Database:
    """The database that `place` names or leads to."""
    if isinstance(place, str) and place.startswith(DJANGO):
        return DjangoDatabase(place.removeprefix(DJANGO) or "default", namespace, patience)
    if isinstance(place, str):
        return _at_url(place, namespace, patience)
    found = understood(place)
    if found is None:
        raise DefinitionError(
            f"{masked(repr(place))} leads to no database. Pass sqlite:///app.db, postgresql://…, "
            "'django:default', or an Engine or sessionmaker (or their async kin) of SQLAlchemy."
        )
    return _through_engine(found, namespace, patience)


def _at_url(url: str, namespace: str, patience: timedelta) -> Database:
    scheme = urlsplit(url).scheme.partition("+")[0]
    if scheme == "sqlite":
        return _sqlite(url, namespace, patience, None)
    if scheme in ("postgresql", "postgres"):
        return _postgres(url, namespace, patience)
    raise DefinitionError(
        f"{masked(url)!r} cannot hold receipts: they commit together with your own rows, so they belong "
        "into your database. Use sqlite:///app.db or postgresql://…."
    )


def _through_engine(place: Place, namespace: str, patience: timedelta) -> Database:
    engine = place.engine
    match engine.dialect.name, engine.dialect.driver:
        case "sqlite", "pysqlite":
            url = f"sqlite:///{_path(engine)}"
            return _sqlite(url, namespace, patience, AlchemyBodies(place, perform_on, watch))
        case "postgresql", "psycopg" | "psycopg_async":
            return _postgres_engine(place, namespace, patience)
        case name, driver:
            raise DefinitionError(
                f"{engine!r} speaks to {name} through {driver}. Use sqlite://, postgresql+psycopg:// "
                "or postgresql+psycopg_async://."
            )


def _path(engine: Any) -> str:
    found = str(engine.url.database or ":memory:")
    if found.startswith("file:"):
        raise DefinitionError(
            f"{engine!r} names its file by a URI, and the ledger could end up in another one. "
            "Use sqlite:///app.db."
        )
    return found


def _sqlite(url: str, namespace: str, patience: timedelta, bodies: Bodies | None) -> Database:
    address = sqlite_address.parse(url)
    return SqliteDatabase(
        address, sqlite_dialect(namespace), bodies or SqliteBodies(address, patience), patience
    )


def _postgres(url: str, namespace: str, patience: timedelta) -> Database:
    _require_psycopg()
    from duly.ledger.postgres.body import PostgresBodies
    from duly.ledger.postgres.database import OwnConnections, PostgresDatabase, dialect_for
    from duly.stores.postgres.address import parse

    address = parse(url)
    lender = OwnConnections(address, patience)
    return PostgresDatabase(address, dialect_for(namespace), lender, PostgresBodies(address), patience)


def _postgres_engine(place: Place, namespace: str, patience: timedelta) -> Database:
    _require_psycopg()
    from duly.ledger.postgres import body
    from duly.ledger.postgres.database import OwnConnections, PostgresDatabase, dialect_for
    from duly.ledger.postgres.talk import drive
    from duly.stores.postgres.address import parse
    from duly.stores.postgres.caller import raw_connection

    # The engine's URL serves for messages and, where its pool can only be awaited, for connections.
    address = parse(place.engine.url.render_as_string(hide_password=False))
    dialect = dialect_for(namespace)
    if place.is_async:
        lender = OwnConnections(address, patience)
        bodies = AsyncAlchemyBodies(place, body.idle_limit)
        return PostgresDatabase(address, dialect, lender, bodies, patience)

    def on_postgres(given: Any, operation: Operation[Any]) -> Any:
        raw: Any = raw_connection(given)
        return drive(raw, operation)

    def limit_idleness(given: Any, limit: timedelta) -> None:
        raw: Any = raw_connection(given)
        body.refuse_autocommit(raw)
        raw.execute(body.idle_limit(limit))

    bodies_through = AlchemyBodies(place, on_postgres, limit_idleness)
    return PostgresDatabase(address, dialect, EngineConnections(place.engine), bodies_through, patience)


def _require_psycopg() -> None:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("A ledger in PostgreSQL", "postgres")
