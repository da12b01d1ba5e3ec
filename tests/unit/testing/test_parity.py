"""The virtual worker decides as the real one does: the same application ends in the same states."""

from __future__ import annotations

import asyncio
from typing import Any

from duly import Duly, Retry, RetryAfter, Run
from duly.errors import ConditionFailed
from duly.testing import virtual

AT_ONCE = Retry(on=OSError, attempts=3, backoff="fixed", first=0)


def enqueue_everything(app: Duly) -> None:  # noqa: C901  a list, not a decision
    """One job for every way a run can end."""

    @app.task(name="returns", keep_result="1h")
    def returns() -> int:
        return 42

    @app.task(name="raises", retry=AT_ONCE)
    def raises() -> None:
        raise ValueError("not listed")

    @app.task(name="tries again", retry=AT_ONCE)
    async def tries_again(run: Run) -> None:
        await asyncio.sleep(0)
        if run.attempt < 3:
            raise OSError("down")

    @app.task(name="gives up", retry=AT_ONCE)
    def gives_up() -> None:
        raise OSError("down")

    @app.task(name="asks badly", retry=AT_ONCE)
    def asks_badly() -> None:
        raise RetryAfter("soon")

    @app.task(name="defers", max_deferrals=2)
    def defers(run: Run) -> None:
        run.defer(0)
        raise ValueError("of no consequence")

    @app.task(name="skips")
    async def skips() -> None:
        raise ConditionFailed("gone")

    @app.task(name="exits")
    def exits() -> None:
        raise SystemExit(1)

    @app.task(name="cannot be stored", keep_result="1h")
    def cannot_be_stored() -> object:
        return object()

    @app.task(name="only once", delivery="at_most_once")
    def only_once() -> None: ...

    @app.task(name="hook")
    def hook(job_id: str, error: str) -> None: ...

    @app.task(name="calls its hook", on_failure=hook)
    def calls_its_hook() -> None:
        raise ValueError("down")

    @app.task(name="follows itself")
    def follows_itself(page: int) -> None:
        if page < 3:
            follows_itself.using(key="site").enqueue(page + 1)

    @app.perpetual(name="stops", every="1h")
    def stops(run: Run) -> None:
        run.stop()

    for name in sorted(set(app.tasks) - {"hook", "follows itself"}):
        app.tasks[name].enqueue()
    follows_itself.using(key="site").enqueue(1)


def ends(app: Duly) -> list[tuple[Any, ...]]:
    jobs = [app.jobs.get(job) for job in app.jobs.list(limit=1000)]
    return sorted(
        (
            job.task,
            job.arguments if job.task != "hook" else "",
            str(job.state),
            job.reason.replace(job.id, "ID"),
            job.attempt,
            job.deferrals,
            job.epoch,
            job.result,
            [line.event for line in job.history],
        )
        for job in jobs
    )


def test_every_end_of_a_run_is_the_same_with_a_real_worker() -> None:
    real, imagined = Duly("memory://"), Duly("memory://")
    enqueue_everything(real)
    real.run(burst=True)

    with virtual(imagined) as clock:
        enqueue_everything(imagined)
        clock.run_due()
        found = ends(imagined)

    assert found == ends(real)
    assert len(found) == 16
