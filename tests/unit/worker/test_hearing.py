"""What running bodies say reaches the store, also when that was away in between."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.unit.worker.arrange import bench_of, holding_of

from duly import Duly
from duly.errors import StoreUnavailable
from duly.signals import Progress
from duly.stores.drive import Operation
from duly.worker import hearing as module
from duly.worker.hearing import Hearing
from duly.worker.lanes import Lanes


async def test_progress_that_the_store_could_not_take_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Duly("memory://")
    holding = holding_of(app)
    hearing = Hearing(app, Lanes(app, None), bench_of(app, asyncio.get_running_loop()))
    monkeypatch.setattr(module, "REPORT_EVERY", 0.0)
    hearing.take(holding, Progress(9, 10, "pages"))

    def away(_operation: Operation[None]) -> None:
        raise StoreUnavailable("nobody answers")

    with monkeypatch.context() as outage:
        outage.setattr(app.store, "run", away)
        with pytest.raises(StoreUnavailable):
            hearing.send()
    hearing.send()  # the body has said nothing more

    progress = app.jobs.get(holding.claim.id).progress
    assert progress is not None
    assert json.loads(progress) == {"done": 9, "total": 10, "message": "pages"}
