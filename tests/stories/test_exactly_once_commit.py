"""A COMMIT whose answer is lost: the store is asked, and nothing happens twice or is called failed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.servers import postgres_schema, postgres_url
from tests.stories.arrange import ended, events, in_state, working
from tests.stories.conftest import OPTIONS
from tests.stories.effects import Effects

from duly import Duly, Run

COMMIT: Final = b"Q\x00\x00\x00\x0bcommit\x00"
CHUNK: Final = 65536


class Cutter:
    """Stands between the worker and the server, and cuts the connection of one body at its COMMIT."""

    def __init__(self, when: Literal["before", "after"]) -> None:
        self._when = when
        self._server = f"{parse_qs(urlsplit(postgres_url()).query)['host'][0]}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}/postgres"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                is_cut = threading.Event()
                threading.Thread(target=self._forward, args=(client, server, is_cut), daemon=True).start()
                threading.Thread(target=_pass_on, args=(server, client, is_cut), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        is_a_bodys = False
        with suppress(OSError):
            while said := client.recv(CHUNK):
                is_a_bodys = is_a_bodys or b"set local duly.run" in said
                if is_a_bodys and said == COMMIT and not self.cuts:
                    self.cuts += 1
                    is_cut.set()
                    said = b"" if self._when == "before" else said
                server.sendall(said)
                if is_cut.is_set():
                    break
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)


def _pass_on(server: socket.socket, client: socket.socket, is_cut: threading.Event) -> None:
    """What the server says reaches the client, unless it was cut off: then it only learns that it was."""
    with suppress(OSError), server, client:
        while answer := server.recv(CHUNK):
            if not is_cut.is_set():
                client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)


@pytest.fixture(params=["before", "after"])
def cutter(request: pytest.FixtureRequest) -> Generator[Cutter, None, None]:
    cutter = Cutter(request.param)
    yield cutter
    cutter.close()


@pytest.fixture
def app(cutter: Cutter, tmp_path: Path) -> Generator[Duly, None, None]:
    app = Duly(cutter.url, namespace=postgres_schema(tmp_path), **OPTIONS)
    app.open()
    yield app
    app.close()


@pytest.fixture
def effects(app: Duly) -> Generator[Effects, None, None]:
    table = Effects(postgres_url(), f"effects_{app.settings.namespace}")
    yield table
    table.drop()


def was_committed(cutter: Cutter) -> bool:
    return cutter._when == "after"  # pyright: ignore[reportPrivateUsage]


def test_a_lost_answer_is_looked_up(app: Duly, cutter: Cutter, effects: Effects) -> None:
    heard: list[str] = []
    app.events.subscribe(lambda event: heard.append(event.kind))

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, run.epoch)

    job = charge.enqueue()
    with working(app):
        ended(app, job)

    assert cutter.cuts == 1
    if was_committed(cutter):
        assert (effects.all(), heard) == ([1], ["done"])
        assert events(app.jobs.get(job)) == ["done"]
    else:
        assert (effects.all(), heard) == ([2], ["release", "done"])
        assert app.jobs.get(job).attempt == 0


async def test_a_lost_answer_to_an_async_body_is_looked_up(
    app: Duly, cutter: Cutter, effects: Effects
) -> None:
    @app.task(delivery="exactly_once")
    async def charge(run: Run) -> None:
        await effects.aadd(run.connection, run.epoch)

    job = charge.enqueue()
    async with app.worker():
        await app.jobs.await_all([job], timeout=8)

    assert cutter.cuts == 1
    assert effects.all() == ([1] if was_committed(cutter) else [2])


def test_a_cycle_whose_answer_was_lost_goes_on(app: Duly, cutter: Cutter, effects: Effects) -> None:
    @app.perpetual(every="10ms", delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, run.epoch)
        if run.epoch >= 3:
            run.stop()

    job = charge.enqueue()
    with working(app):
        in_state(app, job, "done")

    assert effects.all() == ([1, 2, 3] if was_committed(cutter) else [2, 3])
    assert "refused" not in events(app.jobs.get(job))
