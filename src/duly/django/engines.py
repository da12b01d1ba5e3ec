"""`engine()`: the Duly application behind a task backend, one per process and place.

Backends are made per thread while modules are imported; what holds connections must live outside of them.
"""

from __future__ import annotations

import threading
from typing import Any

from duly.app import App
from duly.django import compat
from duly.django.compat import import_string, settings
from duly.django.place import Place, backend_options, place_of
from duly.django.reporting import REPORTER, listen_to
from duly.django.transactions import Atomic
from duly.engine import Duly
from duly.errors import DefinitionError

_engines: dict[Place, Duly] = {}
_latest: dict[tuple[Any, ...], Place] = {}
_making = threading.Lock()


def engine(alias: str | None = None) -> Duly:
    """The engine of the task backend `alias` in TASKS.

    Without one: that of the first backend of ours, "default" before others; where there is none, the
    engine in the default database.
    """
    if alias is None:
        ours = our_backends()
        return engine(ours[0]) if ours else database_engine()
    options = backend_options(alias)
    if options is None:
        raise DefinitionError(f"TASKS has no backend {alias!r}. It has {', '.join(sorted(settings.TASKS))}.")
    return engine_at(place_of(options))


def database_engine(database: str | None = None) -> Duly:
    """The engine whose jobs are rows in a database of Django's: that of `DULY["database"]`, or "default".

    Schedules and executions live there, whatever backend runs the tasks.
    """
    return engine_at(place_of({"url": None} | ({} if database is None else {"database": database})))


def engine_at(place: Place) -> Duly:
    """The one engine of this process at that place; a predecessor at another database is closed."""
    found = _engines.get(place)
    if found is not None:
        return found
    with _making:
        if place not in _engines:
            _retire(place)
            _engines[place] = make_engine(place)
        return _engines[place]


def make_engine(place: Place) -> Duly:
    """Connects at first use, like any other."""
    transactions = Atomic(place.database) if place.is_in_database else None
    options = dict(place.options)
    app: Duly
    if place.is_in_memory:
        from duly.django.memory import MemoryEngine

        app = MemoryEngine(place.database, transactions=transactions, **options)
    else:
        app = Engine(place.url, outbox=place.outbox, transactions=transactions, **options)
    listen_to(app)
    return app


class Engine(Duly):
    """An application whose signals have been sent when a run in this process is over."""

    def run(self, *, burst: bool = False, **options: Any) -> None:
        """Serve in this process until stopped; with burst=True until there is nothing to do."""
        super().run(burst=burst, **options)
        REPORTER.drain()


def _retire(place: Place) -> None:
    """When the test runner has put another database in its place, the old one must be let go of."""
    role = (place.database, place.is_in_database, place.options)
    before = _latest.get(role)
    _latest[role] = place
    if before is not None and before != place and place.is_in_database:
        _engines.pop(before).close()


def our_backends() -> list[str]:
    """The aliases in TASKS that keep their jobs in Duly, "default" before others."""
    tasks: dict[str, dict[str, Any]] = getattr(settings, "TASKS", None) or {}
    ordered = sorted(tasks, key=lambda alias: (alias != compat.DEFAULT_BACKEND, alias))
    return [alias for alias in ordered if is_ours(tasks[alias].get("BACKEND", ""))]


def backends_of(app: App) -> list[str]:
    """The aliases in TASKS whose engine this is."""
    return [alias for alias in our_backends() if engine(alias) is app]


def is_ours(path: str) -> bool:
    """Whether a backend named in TASKS is one that stores jobs in Duly."""
    from duly.django.backend import DulyBackend

    found = import_string(path) if path else None
    return isinstance(found, type) and issubclass(found, DulyBackend)
