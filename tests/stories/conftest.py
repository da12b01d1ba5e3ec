"""Every story takes `app` or `open_app` and runs once per store: a new store is one line more."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.servers import postgres_schema, postgres_url
from tests.servers_redis import namespace_of, shared_url
from tests.stories import errands
from tests.stories.arrange import OpenApp
from tests.stories.effects import Effects
from tests.stories.processes import Crew

from duly import Duly
from duly.testing import VirtualClock


class Place(NamedTuple):
    """Where a test's jobs live: a store, and on a shared server a namespace of its own there."""

    url: str
    namespace: str = "duly"


PLACES: Final[dict[str, Callable[[Path], Place]]] = {
    "memory": lambda folder: Place("memory://"),
    "sqlite": lambda folder: Place(f"sqlite:///{folder / 'duly.db'}"),
    "postgres": lambda folder: Place(postgres_url(), postgres_schema(folder)),
    "redis": lambda folder: Place(shared_url(), namespace_of(folder)),
}

OPTIONS: Final[dict[str, Any]] = {"lease": "30s", "poll": "50ms", "concurrency": 4, "grace": "8s"}
"""Quick to look, with a lease that a busy machine can keep."""


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats of workers in this process come every second all the same: some stories wait for one."""
    monkeypatch.setattr("duly.worker.beat.BEATS_PER_LEASE", 30)


@pytest.fixture(params=list(PLACES))
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return _settled(PLACES[request.param](tmp_path), monkeypatch)


def _settled(place: Place, environment: pytest.MonkeyPatch) -> str:
    environment.setenv("DULY_NAMESPACE", place.namespace)  # for processes started from here as well
    return place.url


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def open_app(url: str) -> Generator[OpenApp, None, None]:
    with ExitStack() as stack:
        opened: list[Duly] = []

        def open_one(**options: Any) -> Duly:
            if "clock" in options:  # leaps of a virtual clock must not end anybody's lease by the way
                options = {"lease": "30d", **options}
            app = Duly(url, **{**OPTIONS, **options})
            if opened and url == "memory://":  # a second process would see nothing of it, a second app must
                stack.enter_context(app.standing_in(opened[0].store, opened[0].clock))
            opened.append(app)
            stack.callback(app.close)
            return app

        yield open_one


@pytest.fixture
def app(open_app: OpenApp) -> Duly:
    return open_app()


@pytest.fixture
def timed_app(open_app: OpenApp, clock: VirtualClock) -> Duly:
    """Its time is `clock`: a test moves it instead of waiting."""
    return open_app(clock=clock)


# --- stores that hold the user's tables too -------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def exact_place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A store whose transactions can hold effects."""
    place = PLACES[request.param](tmp_path)
    _settled(place, monkeypatch)
    return place


@pytest.fixture
def exact_app(exact_place: Place) -> Generator[Duly, None, None]:
    app = Duly(exact_place.url, **OPTIONS)
    app.open()
    yield app
    app.close()


@pytest.fixture
def effects(exact_place: Place, exact_app: Duly) -> Generator[Effects, None, None]:
    """The user's own table beside the jobs."""
    table = Effects(exact_place.url, f"effects_{exact_place.namespace}")
    yield table
    table.drop()


# --- bodies and workers in other processes --------------------------------------------------------


def _errands_on(url: str, folder: Path, environment: pytest.MonkeyPatch, **options: Any) -> Duly:
    """The application of errands.py on this store, here and in every process started from here."""
    environment.setenv("DULY_URL", url)
    environment.setenv("STORY_FOLDER", str(folder))
    for name, value in {**OPTIONS, **options}.items():
        environment.setenv(f"DULY_{name.upper()}", str(value))
    importlib.reload(errands)
    return errands.app


@pytest.fixture
def errand_app(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Duly, None, None]:
    app = _errands_on(url, tmp_path, monkeypatch)
    yield app
    app.close()


@pytest.fixture(params=[name for name in PLACES if name != "memory"])
def crew(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Crew, None, None]:
    """Workers in processes of their own on one store."""
    url = _settled(PLACES[request.param](tmp_path), monkeypatch)
    app = _errands_on(url, tmp_path, monkeypatch)
    crew = Crew(app, tmp_path)
    yield crew
    crew.end()
    app.close()
