"""A worker in a process that measures with OpenTelemetry."""

from __future__ import annotations

import asyncio

from tests.metrics.conftest import Points

from duly import Duly


def test_requests_and_runs_are_measured_by_the_conventions(stored: Duly, points: Points) -> None:
    @stored.task(name="mail", queue_name="letters")
    def mail(to: str) -> None:
        if to == "nobody":
            raise OSError

    mail.enqueue_many([(("ann",), {}), (("nobody",), {})])
    stored.run(burst=True)

    lane = {"messaging.system": "duly", "messaging.destination.name": "letters", "duly.task": "mail"}
    sent = {**lane, "messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
    ran = {**lane, "messaging.operation.name": "run", "messaging.operation.type": "process"}
    failed = {**ran, "duly.outcome": "fail", "error.type": "fail"}
    assert points("messaging.client.sent.messages") == [(sent, 2)]
    assert points("messaging.client.operation.duration") == [(sent, 1)]
    assert sorted(points("messaging.client.consumed.messages"), key=str) == sorted(
        [({**ran, "duly.outcome": "done"}, 1), (failed, 1)], key=str
    )
    assert len(points("messaging.process.duration")) == 2
    assert points("duly.run.wait") == [(ran, 2)]


async def test_a_worker_and_its_store_are_observed_while_it_serves(stored: Duly, points: Points) -> None:
    @stored.task(name="mail", queue_name="letters")
    def mail() -> None: ...

    await mail.using(run_after="1h").aenqueue()
    async with stored.worker(concurrency=7):
        jobs = await asyncio.to_thread(points, "duly.jobs")
        slots = points("duly.worker.slots")
        workers = points("duly.workers")

    facts = {"duly.task": "mail", "messaging.destination.name": "letters", "duly.state": "waiting"}
    assert jobs == [(facts, 1)]
    assert slots == [({}, 7)]
    assert ({"duly.state": "live"}, 1) in workers
    assert points("duly.worker.slots") == []


def test_without_a_provider_nobody_listens() -> None:
    app = Duly("memory://")

    @app.task
    def mail() -> None:
        heard.append(app.events.hears("done"))

    heard: list[bool] = []
    mail.enqueue()
    app.run(burst=True)

    assert heard == [False]
