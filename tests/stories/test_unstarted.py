"""Runs that were told to stop on the way from their claim to their body."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.stories.arrange import Gate, ended, in_state, until, working

from duly import Duly, State


@pytest.mark.parametrize("options", [{}, {"soft_limit": "20s"}], ids=["plain", "limited"])
def test_a_run_cancelled_while_another_blocks_the_loop_never_begins(
    app: Duly, options: dict[str, Any]
) -> None:
    gate, begun = Gate(), list[str]()

    @app.task
    async def blocking() -> None:
        gate.wait_here()

    @app.task(**options)
    async def unwanted() -> None:
        begun.append("unwanted")

    blocking.enqueue()
    job = unwanted.enqueue()
    with working(app):
        gate.reached()
        in_state(app, job, State.RUNNING)
        job.cancel()
        try:
            _two_beats(app)
        finally:
            gate.open()
        ended(app, job)

    assert (begun, job.state()) == ([], State.CANCELLED)


def _two_beats(app: Duly) -> None:
    """The first may have been on its way already."""
    first = _beat_after(app, _seen_at(app))
    _beat_after(app, first)


def _beat_after(app: Duly, before: datetime) -> datetime:
    return until(lambda: seen if (seen := _seen_at(app)) > before else None)


def _seen_at(app: Duly) -> datetime:
    (attendance,) = app.store.run(app.store.workers())
    return attendance.seen_at
