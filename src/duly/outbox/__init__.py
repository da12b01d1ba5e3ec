"""The outbox: requests for another store, written in the user's transaction and carried there by workers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from duly.errors import DefinitionError
from duly.urls import masked

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.outbox.contract import Outbox
    from duly.settings import Settings


def open_outbox(settings: Settings, clock: Clock) -> Outbox | None:
    """The outbox that the settings name; it connects at its first use, like a store."""
    if settings.outbox is None:
        return None
    namespace = f"{settings.namespace}_outbox"
    match urlsplit(settings.outbox).scheme.partition("+")[0]:
        case "sqlite":
            from duly.outbox.sqlite import SqliteOutbox

            return SqliteOutbox(settings.outbox, clock=clock, namespace=namespace)
        case "postgresql" | "postgres":
            from duly.outbox.postgres import PostgresOutbox

            return PostgresOutbox(settings.outbox, clock=clock, namespace=namespace)
        case _:
            raise DefinitionError(
                f"outbox is {masked(settings.outbox)!r}; it must be the database of your own transactions: "
                "postgresql://… or sqlite:///…"
            )
