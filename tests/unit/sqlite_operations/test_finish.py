"""The row of an exactly-once run tells its end, and the history of its job reads as if it had a line."""

from __future__ import annotations

from tests.unit.sqlite_operations.arrange import done, job, lend, request
from tests.unit.sqlite_operations.driver import PlainStore

from duly.lifecycle import Done
from duly.stores.contract import Revive, Selection, Settlement
from duly.testing import VirtualClock


def lines(store: PlainStore) -> list[str]:
    found = store.connection.execute("select event from duly_history order by number")
    return [event for (event,) in found]


def test_its_end_needs_no_line_beside_its_row(store: PlainStore, clock: VirtualClock) -> None:
    store.run(store.put([request()]))
    (lent,) = lend(store)
    began = clock.now()

    assert store.run(store.finish(Settlement(lent.fence, Done(), began)))

    assert lines(store) == []
    (line,) = job(store, lent.id).history
    assert (line.event, line.epoch, line.worker, line.started_at) == ("done", 1, "w1", began)


def test_what_its_row_told_stays_before_the_lines_that_follow(store: PlainStore) -> None:
    store.run(store.put([request()]))
    (first,) = lend(store)
    store.run(store.finish(Settlement(first.fence, Done())))
    store.run(store.settle("w1", [Settlement(first.fence._replace(nonce="stale"), Done())]))
    store.run(store.amend(Selection(ids=(first.id,)), Revive(), by="ann"))
    (second,) = lend(store)

    store.run(store.finish(Settlement(second.fence, Done())))

    history = job(store, first.id).history
    assert [line.event for line in history] == ["done", "refused", "revive", "done"]
    assert [line.generation for line in history] == [first.generation] * 2 + [second.generation] * 2
    assert lines(store) == ["done", "refused", "revive"]


def test_a_revived_job_that_ends_with_others_tells_every_end_once(store: PlainStore) -> None:
    store.run(store.put([request()]))
    (first,) = lend(store)
    store.run(store.finish(Settlement(first.fence, Done())))
    store.run(store.amend(Selection(ids=(first.id,)), Revive(), by="ann"))

    store.run(store.settle("w1", done(lend(store))))

    assert [line.event for line in job(store, first.id).history] == ["done", "revive", "done"]
