"""The operations of the SQLite store, one module and one file of SQL for each."""

from __future__ import annotations

from duly.stores.sqlite.operations.moving import Operations

__all__ = ["Operations"]
