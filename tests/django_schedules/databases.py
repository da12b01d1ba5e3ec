"""Django's connections, and a PostgreSQL database beside the SQLite files of the tests' project."""

from __future__ import annotations

import atexit
import importlib
import os
from functools import cache
from typing import Any

from tests.django.site import add_postgres

connections: Any = importlib.import_module("django.db").connections


@cache
def with_postgres() -> str:
    """Its alias, migrated; made when a test of this process first asks for it."""
    add_postgres()
    atexit.register(_let_go, os.getpid())
    return "postgres"


def _let_go(pid: int) -> None:
    """A connection left open would keep the server from stopping in good order."""
    if pid == os.getpid():
        connections["postgres"].close()
