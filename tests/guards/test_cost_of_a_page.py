"""What a page asks of the store, counted instead of timed: a page must not go to it once for each job.

Every address that `benchmarks.pages` times is visited in a store with some hundred jobs. Whoever makes a page
ask for single jobs, or fetch more of them than it needs, is told here.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.pages import Filling, Mix, addresses, application, visitor
from starlette.testclient import TestClient
from tests.guards.test_cost_of_a_job import Talks
from tests.stories.conftest import PLACES

from duly import Duly
from duly.dashboard.calendar import MOST_OUTCOMES
from duly.stores.drive import Operation, Steps

JOBS: Final = 1_200
MOST_STATEMENTS: Final = 45
"""For one page: a list takes about 10, and the counts beside it 15."""
FOR_SCHEDULES: Final = 160
"""For five schedules, each of whose last ten ticks is looked for by its key."""
FOR_CAUSES: Final = 280
"""For fifty causes on SQLite, where a statement is a call and no journey."""
MANY: Final = 60
"""Schedules, more than a list shows all last ticks of."""
MOST_ROWS: Final = 2_500
"""For one page; a search for nothing passes all jobs."""


class Reading(Talks):
    """Counts statements and the rows they answer, page by page."""

    def __init__(self, app: Duly) -> None:
        super().__init__(app)
        self.rows = 0

    def cost(self, client: TestClient, address: str) -> tuple[int, int]:
        """Statements and rows of one page."""
        self.statements.clear()
        self.rows = 0
        assert client.get(address).status_code == 200
        return self.statements.total(), self.rows

    def _steps(self, operation: Operation[Any]) -> Steps[Any]:
        steps = super()._steps(operation)
        answer: Any = None
        while True:
            try:
                answer = yield (next(steps) if answer is None else steps.send(answer))
            except StopIteration as end:
                return end.value
            self.rows += len(answer)


@pytest.mark.parametrize("store", [name for name in PLACES if name != "memory"])
def test_a_page_asks_little_of_the_store(store: str, tmp_path: Path) -> None:
    place = PLACES[store](tmp_path)
    app = application(place.url, place.namespace)
    Filling(app.store, itertools.count()).fill(Mix.of(JOBS))
    app.run(burst=True, queues=["nobody's"])
    reading = Reading(app)

    with visitor(app) as client:
        costs = {address: reading.cost(client, address) for address in addresses(app)}

    assert {one: cost for one, cost in costs.items() if cost[0] > allowed(store, one)} == {}
    assert {one: cost for one, cost in costs.items() if cost[1] > MOST_ROWS} == {}
    app.close()


def allowed(store: str, address: str) -> int:
    if address.startswith("/schedule"):
        return FOR_SCHEDULES
    return FOR_CAUSES if "failures" in address and store == "sqlite" else MOST_STATEMENTS


def test_a_list_of_many_schedules_asks_no_more_than_so_often() -> None:
    app = application("memory://", "duly")
    tick = app.schedule(every="1h", name="many-0")(app.task(name="tick")(lambda: None))
    for number in range(1, MANY):
        app.schedule(every="1h", name=f"many-{number}")(tick)
    app.run(burst=True, queues=["nobody's"])
    names, reading = len(app.schedules.list()), Reading(app)

    with visitor(app) as client:
        reading.cost(client, "/schedules")

    assert reading.asked["find"] <= names + MOST_OUTCOMES + 5
    app.close()
