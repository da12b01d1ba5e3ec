"""Where the engine of a task backend keeps its jobs, read from Django's settings at the moment of asking.

Django's test runner puts other databases in the place of the configured ones, so nothing is remembered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from duly.django.compat import connections, settings
from duly.errors import DefinitionError
from duly.settings import DURATIONS, NUMBERS

ENGINE_WORDS: Final = ("namespace", *DURATIONS, *NUMBERS)
"""Options of `duly.Duly` that `OPTIONS` and `DULY` pass on."""
PLACE_WORDS: Final = ("database", "url")
BACKEND_WORDS: Final = ("enqueue_on_commit",)
SCHEDULER_WORDS: Final = ("autostart", "executions", "schedule_poll")
"""What `DULY` says of schedules: whether a server starts a scheduler, the terms of executions, how often rows
are read."""
DJANGO_OPTIONS: Final = (
    "assume_role",
    "client_encoding",
    "cursor_factory",
    "isolation_level",
    "pool",
    "prepare_threshold",
    "server_side_binding",
)
"""Options of a PostgreSQL database that are Django's, not the server's."""


@dataclass(frozen=True, slots=True)
class Place:
    """What tells one engine from another."""

    database: str
    """Django's alias of the database whose transactions requests can join."""
    url: str
    """Of the store; empty for an SQLite database in memory, which only Django's connections reach."""
    outbox: str | None = None
    options: tuple[tuple[str, Any], ...] = field(default=())

    @property
    def is_in_memory(self) -> bool:
        """A test's database, gone with Django's connection."""
        return not self.url

    @property
    def is_in_database(self) -> bool:
        """The jobs are rows beside the user's own."""
        return self.outbox is None

    @property
    def namespace(self) -> str:
        """Where in the database."""
        return str(dict(self.options).get("namespace", "duly"))


def duly_setting() -> Mapping[str, Any]:
    """The `DULY` setting: what holds for all engines and for the scheduler."""
    return getattr(settings, "DULY", None) or {}


def backend_options(alias: str) -> Mapping[str, Any] | None:
    """`OPTIONS` of a task backend; None if there is no such backend."""
    tasks: Mapping[str, Mapping[str, Any]] = getattr(settings, "TASKS", None) or {}
    return None if alias not in tasks else tasks[alias].get("OPTIONS") or {}


def place_of(options: Mapping[str, Any]) -> Place:
    """The place that a backend's options name, on top of the `DULY` setting."""
    given = {**duly_setting(), **options}
    database = str(given.get("database") or "default")
    passed = tuple(sorted((word, given[word]) for word in ENGINE_WORDS if given.get(word) is not None))
    here = database_url(database)
    elsewhere = given.get("url")
    if elsewhere is None:
        return Place(database, here or "", options=passed)
    return Place(database, str(elsewhere), outbox=here, options=passed)


def database_url(alias: str) -> str | None:
    """The URL of a database of Django's; None for one in memory."""
    connection: Any = connections[alias]
    words: Mapping[str, Any] = connection.settings_dict
    if connection.vendor == "sqlite":
        name = str(words["NAME"])
        return None if is_in_memory(name) else f"sqlite:///{quote(name)}"
    if connection.vendor == "postgresql":
        return _postgres_url(words)
    raise DefinitionError(
        f"The database {alias!r} is {connection.vendor}, and Duly keeps jobs in PostgreSQL, SQLite or Redis. "
        "Set OPTIONS = {'database': …} to another database, or {'url': 'redis://…'}."
    )


def is_in_memory(name: str) -> bool:
    """Whether an SQLite database has no file."""
    return name == ":memory:" or "mode=memory" in name


def _postgres_url(words: Mapping[str, Any]) -> str:
    given: Mapping[str, Any] = words.get("OPTIONS") or {}
    extras = {word: str(value) for word, value in given.items() if word not in DJANGO_OPTIONS}
    host, port = str(words.get("HOST") or ""), str(words.get("PORT") or "")
    if host.startswith("/"):  # a folder of sockets
        extras |= {"host": host} | ({"port": port} if port else {})
        host = port = ""
    user, password = str(words.get("USER") or ""), str(words.get("PASSWORD") or "")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + ("@" if user else "")
    where = f"[{host}]" if ":" in host else host
    query = f"?{urlencode(extras, quote_via=quote)}" if extras else ""
    return f"postgresql://{who}{where}{f':{port}' if port else ''}/{quote(str(words['NAME'] or ''))}{query}"
