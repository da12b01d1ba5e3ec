"""A COMMIT whose answer is lost: the store is asked, and nothing happens twice or is called failed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.servers import postgres_schema, postgres_url
from tests.stories.arrange import ended, events, in_state, working
from tests.stories.conftest import OPTIONS
from tests.stories.cutter import COMMIT, Cutter
from tests.stories.effects import Effects

from duly import Duly, Run


@pytest.fixture(params=["before", "after"])
def cutter(request: pytest.FixtureRequest) -> Generator[Cutter, None, None]:
    cutter = Cutter(COMMIT, request.param)
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
    return cutter.when == "after"


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
        await app.jobs.await_all([job], timeout=60)

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
