"""Jobs in a SQLite file: what Duly runs on when nothing else was installed."""

from __future__ import annotations

from duly.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
