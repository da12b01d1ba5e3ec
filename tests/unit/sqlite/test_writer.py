"""Many callers, one transaction: few commits for all, and nobody pays for another's error."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sqlite.conftest import OpenDriver, until
from tests.unit.sqlite.notes import add, add_lightly, add_then_raise, ask, ruin, seen_from_outside, texts

from duly.errors import SchemaMismatch, StoreBusy, StoreError, StoreUnavailable
from duly.stores.drive import Lengthy, Operation, Statement, Steps
from duly.stores.sqlite import batch, company, journal
from duly.stores.sqlite.driver import Driver
from duly.stores.sqlite.filelock import FileLock
from duly.stores.sqlite.journal import Checkpointer
from duly.stores.sqlite.tickets import ThreadTicket
from duly.stores.sqlite.writer import Writer

SHORT = timedelta(milliseconds=300)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(80) as pool:
        yield pool


@pytest.fixture
def file_lock(driver: Driver, path: str) -> Iterator[FileLock]:
    """The lock as another process would hold it."""
    lock = FileLock(path + "-duly.lock")
    yield lock
    lock.close()


class Crowd:
    """Operations made to wait behind a leader that stands still, in a known order."""

    def __init__(self, driver: Driver, threads: ThreadPoolExecutor) -> None:
        self._driver = driver
        self._threads = threads
        self._go = threading.Event()
        leads = threading.Event()

        def stand_still() -> None:
            leads.set()
            self._go.wait()

        self.leader = threads.submit(driver.run, add("leader", before=stand_still))
        leads.wait()

    def join(self, operation: Operation[Any]) -> Future[Any]:
        ahead = self._driver.queued
        joined = self._threads.submit(self._driver.run, operation)
        until(lambda: self._driver.queued == ahead + 1)
        return joined

    def let_go(self) -> None:
        self._go.set()
        self.leader.result()


@pytest.fixture
def crowd(driver: Driver, threads: ThreadPoolExecutor) -> Iterator[Crowd]:
    made = Crowd(driver, threads)
    yield made
    made.let_go()


def test_a_light_one_of_a_lone_caller_begins_no_transaction(
    driver: Driver, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.run(add("first"))
    monkeypatch.delattr(batch, "begin_immediate")

    assert driver.run(add_lightly("light")) == "new"

    assert seen_from_outside(path) == ["first", "light"]


def test_a_light_one_that_changes_nothing_goes_on_in_a_transaction(driver: Driver, path: str) -> None:
    driver.run(add("first"))

    assert driver.run(add_lightly("first")) == "first was there"

    assert seen_from_outside(path) == ["first"]


def test_a_light_one_waits_for_another_process(
    driver: Driver, path: str, file_lock: FileLock, threads: ThreadPoolExecutor
) -> None:
    driver.run(add("first"))
    file_lock.acquire()

    written = threads.submit(driver.run, add_lightly("light"))
    until(lambda: driver.queued == 1)
    file_lock.release()

    assert written.result() == "new"
    assert seen_from_outside(path) == ["first", "light"]


def test_a_light_one_waits_for_a_connection_that_knows_nothing_of_the_lock(
    driver: Driver, path: str, threads: ThreadPoolExecutor
) -> None:
    driver.run(add("first"))
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as stranger:
        stranger.execute("begin immediate")
        written = threads.submit(driver.run, add_lightly("light"))
        until(lambda: driver.queued == 1)
        stranger.execute("commit")

        assert written.result() == "new"

    assert seen_from_outside(path) == ["first", "light"]


def test_a_light_one_that_fails_says_why(driver: Driver, path: str) -> None:
    driver.run(add("first"))
    with closing(sqlite3.connect(path)) as stranger:
        stranger.execute("drop table duly_note")

    with pytest.raises(SchemaMismatch, match="no table duly_note"):
        driver.run(add_lightly("light"))


@pytest.mark.parametrize("added", [add, add_lightly])
def test_what_an_interrupt_left_open_is_undone_before_anything_is_stored(
    driver: Driver, path: str, monkeypatch: pytest.MonkeyPatch, added: Callable[[str], Operation[Any]]
) -> None:
    driver.run(add("first"))
    monkeypatch.setattr(journal, "COMMITS_BETWEEN", 1)
    monkeypatch.setattr(journal, "COMMITS_UNSEEN", 1)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Checkpointer, "_has_lock", begin_and_be_interrupted)
        interrupted.setattr(Checkpointer, "_let_go", leave_it_open)
        with pytest.raises(KeyboardInterrupt):
            driver.run(add_lightly("second"))
    driver.run(added("third"))

    assert seen_from_outside(path) == ["first", "second", "third"]


_has_lock = Checkpointer._has_lock  # pyright: ignore[reportPrivateUsage]  an interrupt comes between any two lines


def begin_and_be_interrupted(checkpointer: Checkpointer) -> bool:
    assert _has_lock(checkpointer)
    raise KeyboardInterrupt


def leave_it_open(_checkpointer: Checkpointer) -> None:
    """The interrupt came just there."""


def test_an_interrupt_in_a_write_back_leaves_the_file_to_others(
    driver: Driver, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "COMMITS_BETWEEN", 1)
    monkeypatch.setattr(journal, "COMMITS_UNSEEN", 1)
    monkeypatch.setattr(Checkpointer, "_has_lock", begin_and_be_interrupted)

    with pytest.raises(KeyboardInterrupt):
        driver.run(add_lightly("light"))

    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as stranger:
        stranger.execute("begin immediate")
    file_lock = FileLock(path + "-duly.lock")
    assert file_lock.try_acquire()
    file_lock.close()


def test_a_light_one_of_a_crowd_shares_its_commit(crowd: Crowd, path: str) -> None:
    joined = [crowd.join(add_lightly("one")), crowd.join(add_lightly("two")), crowd.join(add_lightly("one"))]

    crowd.let_go()

    assert [each.result() for each in joined] == ["new", "new", "one was there"]
    assert seen_from_outside(path) == ["leader", "one", "two"]


def test_threads_wake_each_other_and_one_that_is_not_woken_looks_for_himself(
    crowd: Crowd, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is struck down before waking the next must not cost all others their answer."""
    answer, forgotten = ThreadTicket.answer, list[ThreadTicket]()

    def forget_the_first(ticket: ThreadTicket) -> None:
        if ticket.operation.name != "add leader" and not forgotten:
            forgotten.append(ticket)
        else:
            answer(ticket)

    monkeypatch.setattr(ThreadTicket, "answer", forget_the_first)
    names = ["a", "b", "c", "d"]
    joined = [crowd.join(add_lightly(name)) for name in names]
    crowd.let_go()

    assert [one.result(60) for one in joined] == ["new"] * 4
    assert len(forgotten) == 1
    assert seen_from_outside(path) == ["leader", *names]


def test_light_ones_that_come_back_at_once_share_their_next_commit(
    crowd: Crowd, driver: Driver, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them would go alone, and the others wait for it."""
    monkeypatch.setattr(company, "GAP", 60.0)
    sizes, run = list[int](), batch.Batch.run

    def counted(one: batch.Batch, may_wait: Callable[[], bool]) -> None:
        run(one, may_wait)
        sizes.append(len(one.taken))

    def come_twice(name: str) -> None:
        driver.run(add_lightly(f"{name}1"))
        driver.run(add_lightly(f"{name}2"))

    coming = list[Future[None]]()
    monkeypatch.setattr(batch.Batch, "run", counted)
    for number, name in enumerate("abc", 1):
        coming.append(threads.submit(come_twice, name))
        until(lambda: driver.queued == number)  # noqa: B023  at once
    crowd.let_go()
    for one in coming:
        one.result(60)

    assert sizes == [3]  # the first three went with the leader, before anybody counted


def test_a_write_is_committed_when_it_returns(driver: Driver, path: str) -> None:
    assert driver.run(add("one")) == 1

    assert seen_from_outside(path) == ["one"]


def test_a_lone_write_stays_in_the_callers_thread(driver: Driver) -> None:
    used: list[int] = []

    driver.run(add("one", before=lambda: used.append(threading.get_ident())))

    assert used == [threading.get_ident()]


def test_what_waits_together_commits_together(crowd: Crowd, path: str) -> None:
    committed: list[list[str]] = []
    waiting = [
        crowd.join(add(f"note {n}", before=lambda: committed.append(seen_from_outside(path))))
        for n in range(5)
    ]

    crowd.let_go()

    assert [joined.result() for joined in waiting] == [2, 3, 4, 5, 6]
    assert committed == [[]] * 5  # none was visible before all were


def test_one_that_fails_is_undone_alone(crowd: Crowd, driver: Driver) -> None:
    before, bad, after = (
        crowd.join(add("before")),
        crowd.join(add_then_raise("bad")),
        crowd.join(add("after")),
    )

    crowd.let_go()

    assert (before.result(), after.result()) == (2, 3)
    with pytest.raises(ValueError, match="no bad"):
        bad.result()
    assert driver.run(texts()) == ["leader", "before", "after"]


def test_a_leader_that_fails_does_not_take_the_others_along(
    driver: Driver, threads: ThreadPoolExecutor
) -> None:
    leads, go = threading.Event(), threading.Event()

    def fail_later() -> None:
        leads.set()
        go.wait()
        raise ValueError("the leader's own")

    leader = threads.submit(driver.run, add("leader", before=fail_later))
    leads.wait()
    other = threads.submit(driver.run, add("other"))
    until(lambda: driver.queued == 1)
    go.set()

    assert other.result() == 1
    with pytest.raises(ValueError, match="the leader's own"):
        leader.result()
    assert driver.run(texts()) == ["other"]


def test_when_the_whole_transaction_is_lost_the_innocent_try_again(crowd: Crowd, driver: Driver) -> None:
    before, culprit, after = crowd.join(add("before")), crowd.join(ruin()), crowd.join(add("after"))

    crowd.let_go()

    before.result()
    after.result()
    with pytest.raises(StoreError, match="UNIQUE"):
        culprit.result()
    kept = driver.run(texts())
    assert sorted(kept) == ["after", "before", "leader"]


def test_a_batch_has_an_end_and_the_rest_gets_the_next_one(
    crowd: Crowd, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "LIMIT", 3)  # the leader and two more
    committed: list[int] = []
    waiting = [
        crowd.join(add(f"{n}", before=lambda: committed.append(len(seen_from_outside(path)))))
        for n in range(5)
    ]

    crowd.let_go()
    for joined in waiting:
        joined.result()

    assert committed == [0, 0, 3, 3, 3]


def test_many_threads_lose_nothing(driver: Driver, threads: ThreadPoolExecutor) -> None:
    def write(thread: int) -> None:
        for n in range(25):
            driver.run(add(f"{thread}/{n}"))

    list(threads.map(write, range(16)))

    assert len(driver.run(texts())) == 16 * 25
    assert driver.run(ask("pragma integrity_check", writes=False)) == [("ok",)]


def test_readers_see_the_last_commit_while_somebody_writes(crowd: Crowd, driver: Driver) -> None:
    assert driver.run(texts()) == []

    crowd.let_go()

    assert driver.run(texts()) == ["leader"]


def test_a_read_cannot_write(driver: Driver) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        driver.run(ask("insert into duly_note values (1, 'one')", writes=False))

    assert not isinstance(caught.value, StoreBusy)


def test_a_writer_gives_up_when_another_process_does_not(
    open_driver: OpenDriver, file_lock: FileLock, path: str
) -> None:
    driver = open_driver(patience=SHORT)
    file_lock.try_acquire()

    with pytest.raises(StoreBusy, match="fuser"):
        driver.run(add("late"))

    file_lock.release()
    assert driver.run(add("one")) == 1
    assert seen_from_outside(path) == ["one"]  # what was given up did not happen after all


def test_a_writer_waits_for_another_process(
    driver: Driver, file_lock: FileLock, threads: ThreadPoolExecutor
) -> None:
    file_lock.try_acquire()
    waiting = threads.submit(driver.run, add("one"))
    until(lambda: driver.queued == 1)

    file_lock.release()

    assert waiting.result() == 1


def test_a_writer_gives_up_when_an_application_holds_the_write_lock(
    open_driver: OpenDriver, path: str
) -> None:
    driver = open_driver(patience=SHORT)
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("begin immediate")

        with pytest.raises(StoreBusy, match="using\\(connection="):
            driver.run(add("late"))

        application.execute("rollback")
    assert driver.run(add("one")) == 1


def test_a_writer_waits_for_an_applications_transaction(
    driver: Driver, path: str, threads: ThreadPoolExecutor
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("begin immediate")
        application.execute("insert into duly_note values (7, 'theirs')")
        waiting = threads.submit(driver.run, add("ours"))
        until(lambda: driver.queued == 1)

        application.execute("commit")

    assert waiting.result() == 8


def test_with_a_rollback_journal_a_commit_waits_for_readers(
    open_driver: OpenDriver, path: str, threads: ThreadPoolExecutor
) -> None:
    driver = open_driver("?journal=rollback")
    began = threading.Event()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select * from duly_note").fetchall()
        waiting = threads.submit(driver.run, add("one", before=began.set))
        began.wait()

        reader.execute("commit")

    assert waiting.result() == 1


def test_with_a_rollback_journal_a_reader_that_never_ends_fails_the_commit(
    open_driver: OpenDriver, path: str
) -> None:
    driver = open_driver("?journal=rollback", patience=timedelta(milliseconds=200))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select * from duly_note").fetchall()

        with pytest.raises(StoreBusy, match="locked"):
            driver.run(add("late"))

    assert driver.run(add("one")) == 1
    assert seen_from_outside(path) == ["one"]


def test_a_statement_for_a_table_that_is_gone_is_a_mismatch_of_schemas(driver: Driver) -> None:
    with pytest.raises(SchemaMismatch, match="duly_lost"):
        driver.run(ask("select * from duly_lost"))


def test_closing_waits_for_the_batch_in_progress(
    crowd: Crowd, driver: Driver, threads: ThreadPoolExecutor
) -> None:
    closing_it = threads.submit(driver.close)

    crowd.let_go()
    closing_it.result()

    assert crowd.leader.result() == 1
    assert driver.run(texts()) == ["leader"]  # a later use opens the file again


async def test_tasks_write_without_holding_up_their_loop(driver: Driver, file_lock: FileLock) -> None:
    file_lock.try_acquire()
    waiting = asyncio.create_task(driver.arun(add("one")))

    while driver.queued == 0:  # the loop goes round while the write cannot
        await asyncio.sleep(0)
    assert await driver.arun(texts()) == []
    file_lock.release()

    assert await waiting == 1


async def test_a_hundred_tasks_share_commits(driver: Driver) -> None:
    numbers = await asyncio.gather(*(driver.arun(add(f"note {n}")) for n in range(100)))

    assert sorted(numbers) == list(range(1, 101))


async def test_threads_and_tasks_write_side_by_side(driver: Driver, threads: ThreadPoolExecutor) -> None:
    from_threads = [threads.submit(driver.run, add(f"thread {n}")) for n in range(30)]
    await asyncio.gather(*(driver.arun(add(f"task {n}")) for n in range(30)))
    await asyncio.gather(*(asyncio.wrap_future(one) for one in from_threads))

    kept = await driver.arun(texts())
    assert len(kept) == 60


async def test_a_task_learns_of_its_own_error(driver: Driver) -> None:
    with pytest.raises(ValueError, match="no bad"):
        await driver.arun(add_then_raise("bad"))


async def test_a_task_gives_up_when_another_process_does_not(
    open_driver: OpenDriver, file_lock: FileLock
) -> None:
    driver = open_driver(patience=SHORT)
    file_lock.try_acquire()

    with pytest.raises(StoreBusy):
        await driver.arun(add("late"))

    file_lock.release()
    assert await driver.arun(add("one")) == 1


async def test_a_cancelled_write_that_had_not_begun_never_happens(
    driver: Driver, file_lock: FileLock
) -> None:
    file_lock.try_acquire()
    waiting = asyncio.create_task(driver.arun(add("cancelled")))
    while driver.queued == 0:
        await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    file_lock.release()

    assert await driver.arun(add("one")) == 1
    assert await driver.arun(texts()) == ["one"]


def test_an_interrupt_in_the_leader_tells_the_others_and_leaves_the_writer_usable(
    driver: Driver, threads: ThreadPoolExecutor
) -> None:
    leads, go = threading.Event(), threading.Event()

    def hit_control_c() -> None:
        leads.set()
        go.wait()
        raise KeyboardInterrupt

    leader = threads.submit(driver.run, add("leader", before=hit_control_c))
    leads.wait()
    other = threads.submit(driver.run, add("other"))
    until(lambda: driver.queued == 1)
    go.set()

    assert isinstance(leader.exception(), KeyboardInterrupt)
    assert other.result() == 1
    assert driver.run(texts()) == ["other"]


def test_a_store_may_be_closed_while_another_process_blocks_it(
    open_driver: OpenDriver, file_lock: FileLock
) -> None:
    driver = open_driver(patience=SHORT)
    file_lock.try_acquire()
    with pytest.raises(StoreBusy):
        driver.run(add("late"))

    driver.close()

    file_lock.release()
    assert driver.run(add("one")) == 1


def test_a_write_that_waits_while_the_store_closes_is_still_done(
    crowd: Crowd, driver: Driver, path: str
) -> None:
    waiting = crowd.join(add("waiting"))
    closing_it = threading.Thread(target=driver.close)
    closing_it.start()

    crowd.let_go()
    closing_it.join()

    assert waiting.result() == 2
    assert seen_from_outside(path) == ["leader", "waiting"]


def test_a_task_whose_write_has_not_begun_while_the_store_closes_is_still_served(
    driver: Driver, path: str, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The background thread went home without it, and the task waited for its time to be over."""
    driver.run(add("first"))
    is_needed: Callable[[Writer], bool] = getattr(Writer, "_is_needed")  # noqa: B009  nobody else asks
    is_called, is_closing = threading.Event(), threading.Event()

    def slowly(self: Writer) -> bool:
        is_called.set()
        assert is_closing.wait(60)
        return is_needed(self)

    monkeypatch.setattr(Writer, "_is_needed", slowly)
    written = threads.submit(arun, driver, add("task"))
    assert is_called.wait(60)
    writer = desk_of(driver).writer
    closing_it = threads.submit(driver.close)
    until(lambda: writer._is_closed)
    is_closing.set()

    assert written.result(60) == 2
    closing_it.result(60)
    assert seen_from_outside(path) == ["first", "task"]


def desk_of(driver: Driver) -> Any:
    return getattr(driver, "_desk")  # noqa: B009  nobody else asks


def test_where_no_thread_can_be_had_for_a_moment_everybody_is_served_all_the_same(
    crowd: Crowd, driver: Driver, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead stayed with whoever had it before a task, and was told of an error for what was stored."""
    start, refused = threading.Thread.start, list[str]()

    def refuse_once(self: threading.Thread) -> None:
        if self.name == "duly-sqlite-writer" and not refused:
            refused.append(self.name)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    monkeypatch.setattr(batch, "LIMIT", 1)  # so that the task is the next to lead
    task = threads.submit(arun, driver, add("task"))
    until(lambda: driver.queued == 1)
    thread = crowd.join(add("thread"))

    crowd.let_go()

    assert (task.result(60), thread.result(60)) == (2, 3)
    assert refused
    assert driver.run(texts()) == ["leader", "task", "thread"]


def arun(driver: Driver, operation: Operation[int]) -> int:
    return asyncio.run(driver.arun(operation))


# --- what a caller does meanwhile ---------------------------------------------------------------


def lengthy(said: list[str]) -> Operation[None]:
    def steps() -> Steps[None]:
        yield Statement("select 1")
        said.append("short")
        yield Lengthy("insert into duly_note (text) values ('long')")
        said.append("long")

    return Operation("lengthy", steps, meanwhile=lambda: said.append("meanwhile"))


def test_a_caller_is_busy_with_something_else_from_the_long_statement_on(driver: Driver) -> None:
    said: list[str] = []

    driver.run(lengthy(said))

    assert said == ["short", "meanwhile", "long"]


def test_a_caller_that_waits_for_its_turn_is_busy_at_once(crowd: Crowd) -> None:
    said: list[str] = []

    joined = crowd.join(lengthy(said))
    until(lambda: bool(said))
    before = list(said)
    crowd.let_go()
    joined.result()

    assert before == ["meanwhile"]
    assert [word for word in said if word != "meanwhile"] == ["short", "long"]


def test_a_caller_is_busy_while_a_connection_that_is_not_ours_writes(
    driver: Driver, path: str, threads: ThreadPoolExecutor
) -> None:
    said: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
        theirs.execute("begin immediate")
        waiting = threads.submit(driver.run, lengthy(said))
        until(lambda: bool(said))
        before = list(said)
        theirs.execute("rollback")

    waiting.result()

    assert before == ["meanwhile"]
    assert said == ["meanwhile", "short", "long"]
