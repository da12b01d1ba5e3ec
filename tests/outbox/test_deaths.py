"""Relays that die or freeze between two steps, in processes of their own."""

from __future__ import annotations

import signal
from typing import Any

from tests.stories import errands
from tests.stories.arrange import until
from tests.stories.processes import SHORT, Crew

from duly.job import State

KEY = "order:17"


def backlog() -> int:
    outbox = errands.app.outbox
    assert outbox is not None
    return outbox.run(outbox.backlog()).waiting


def test_a_relay_killed_between_delivering_and_clearing_leaves_one_job(crew: Crew, connection: Any) -> None:
    errands.quick.using(connection=connection).enqueue(1)
    errands.quick.using(connection=connection, key=KEY).enqueue(2)
    connection.commit()
    victim = crew.launch(DULY_FAILPOINTS="after_deliver=exit", **SHORT)
    code = victim.wait()
    stands = (crew.app.jobs.count(), backlog())

    crew.start()
    until(lambda: backlog() == 0)
    until(lambda: crew.app.jobs.count(state="done") == 2)

    assert (code, stands) == (137, (2, 2))
    assert sorted(errands.lines("quick")) == ["1", "2"]
    assert crew.app.jobs.count() == 2


def test_a_relay_killed_before_delivering_loses_nothing(crew: Crew, connection: Any) -> None:
    errands.quick.using(connection=connection).enqueue(1)
    connection.commit()
    victim = crew.launch(DULY_FAILPOINTS="before_deliver=exit", **SHORT)
    code = victim.wait()
    stands = (crew.app.jobs.count(), backlog())

    crew.start()
    until(lambda: errands.lines("quick") == ["1"])

    assert (code, stands) == (137, (0, 1))
    until(lambda: backlog() == 0)


def test_a_worker_killed_in_the_middle_of_many_leaves_each_job_once(crew: Crew, connection: Any) -> None:
    for number in range(150):
        errands.quick.using(connection=connection).enqueue(number)
    connection.commit()
    victim = crew.start(**SHORT)
    until(crew.app.jobs.count)
    victim.send(signal.SIGKILL)
    victim.wait()

    crew.start()
    until(lambda: crew.app.jobs.count(state="done") == 150)
    until(lambda: backlog() == 0)

    assert crew.app.jobs.count() == 150
    assert {int(line) for line in errands.lines("quick")} == set(range(150))


def test_a_frozen_relay_that_wakes_does_not_undo_the_newer_replace(crew: Crew, connection: Any) -> None:
    old = errands.quick.using(connection=connection, key=KEY, replace=True, run_after="1h").enqueue(1)
    connection.commit()
    frozen = crew.launch(DULY_FAILPOINTS="before_deliver=stop nth=1; after_deliver=exit nth=1", **SHORT)
    until(lambda: frozen.is_frozen)
    new = errands.quick.using(connection=connection, key=KEY, replace=True, run_after="1h").enqueue(2)
    connection.commit()
    crew.start()
    until(lambda: [job.id for job in crew.app.jobs.list(key=KEY, state="waiting")] == [new.id])
    until(lambda: backlog() == 0)

    frozen.thaw()
    code = frozen.wait()

    [job] = crew.app.jobs.list(key=KEY, state="waiting")
    assert code == 137  # it did deliver
    assert (job.id, crew.app.jobs.get(old).state) == (new.id, State.CANCELLED)
    assert crew.app.jobs.count(key=KEY) == 2
