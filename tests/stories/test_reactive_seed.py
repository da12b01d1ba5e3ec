"""Every testable statement of the reactive guide that Duly grew from, M1 to M10, as Duly keeps it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.stories import followers
from tests.stories.arrange import Gate, run_all, until, working
from tests.stories.conftest import OPTIONS, Place
from tests.stories.desk import Desk, Told, paid
from tests.stories.processes import SHORT, WorkerProcess

from duly import Change, Duly, LockTaken, Retry, Run


@pytest.fixture
def desk(exact_place: Place, exact_app: Duly) -> Generator[Desk, None, None]:
    made = Desk(exact_place.url, f"orders_{exact_place.namespace}")
    yield made
    made.drop()


# --- M1: at least once, and the named reasons for running again ------------------------------------


def test_m1_a_worker_that_crashes_leaves_its_row_to_another(
    exact_place: Place, exact_app: Duly, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers.prepare(monkeypatch, exact_place.url, desk.table, tmp_path)
    first = WorkerProcess(tmp_path / "first.log", target=followers.TARGET, **SHORT)
    try:
        desk.order(1, "slow")
        until(lambda: followers.lines(tmp_path, "began") == ["1"])
        first.kill()
        second = WorkerProcess(tmp_path / "second.log", target=followers.TARGET)
        try:
            followers.let(tmp_path)
            until(lambda: followers.lines(tmp_path, "ended") == ["1"])
        finally:
            second.end()
    finally:
        first.end()

    assert followers.lines(tmp_path, "began") == ["1", "1"]


def test_m1_reconciliation_runs_rows_again_whose_records_were_deleted(exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)
    desk.order(1)
    run_all(exact_app)
    schema = "" if desk.is_sqlite else f"{exact_app.settings.namespace}."
    table = "duly_document" if desk.is_sqlite else "document"
    desk.say(f"delete from {schema}{table}")

    run_all(exact_app)
    assert told.keys == [1]
    exact_app.reactions.reconcile("receipt")
    run_all(exact_app)

    assert told.keys == [1, 1]


@pytest.mark.parametrize("cleanup", ["deleted", "deleted_or_unmatched"])
def test_m1_leaving_and_entering_the_filter_again_runs_again(
    exact_app: Duly, desk: Desk, cleanup: str
) -> None:
    told = paid(exact_app, desk, cleanup=cleanup)
    desk.order(1)
    run_all(exact_app)
    desk.change("status = 'new'", 1)
    run_all(exact_app)

    desk.change("status = 'paid'", 1)
    run_all(exact_app)

    assert told.keys == [1, 1]


def test_m1_explicit_reprocessing_runs_again(exact_place: Place, exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)
    desk.order(1)
    desk.order(2, total=20)
    run_all(exact_app)

    assert exact_app.reactions.retry("receipt", where="total > 10") == 1
    run_all(exact_app)
    newer = Duly(exact_place.url, **OPTIONS)
    again = paid(newer, desk, version=2, on_version_change="reprocess_all")
    run_all(newer)

    assert told.keys == [1, 2, 2]
    assert again.keys == [1, 2]
    newer.close()


# --- M2, M3: the row is read once, checked, in part, and in a transaction --------------------------


@pytest.mark.parametrize("what", ["status = 'refunded'", "total = 11", None])
def test_m2_a_row_that_is_no_longer_so_is_skipped_and_not_failed(
    exact_app: Duly, desk: Desk, what: str | None
) -> None:
    told = Told()

    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["total"], name="receipt")
    def receipt(change: Change) -> None:
        if change.values["total"] == 10:
            if what is None:
                desk.delete(1)
            else:
                desk.change(what, 1)
        told.note(change)

    desk.order(1)
    run_all(exact_app)

    [first, *_] = sorted(exact_app.jobs.list(), key=lambda job: job.generation)
    assert (first.state, first.error, first.attempt) == ("skipped", None, 0)
    assert first.reason
    assert [row["total"] for _, row in told] == ([11] if what == "total = 11" else [])


def test_m3_a_part_of_the_row_is_enough(exact_app: Duly, desk: Desk) -> None:
    rows: list[Any] = []

    @exact_app.react(table=desk.table)
    def receipt(change: Change) -> None:
        rows.append(dict(change.document(columns=["total"])))

    desk.order(1)
    run_all(exact_app)

    assert rows == [{"total": 10}]


def test_m3_the_row_is_read_and_held_in_a_transaction_of_the_bodys_own(exact_app: Duly, desk: Desk) -> None:
    waited: list[bool] = []

    @exact_app.react(table=desk.table, retry=None)
    def receipt(change: Change) -> None:
        with desk.connect() as connection:
            connection.execute("begin")
            change.document(connection=connection, lock=True)
            writer = threading.Thread(target=desk.change, args=("note = 'late'", 1))
            writer.start()
            writer.join(0.3)
            waited.append(writer.is_alive())
            connection.execute("commit")
            writer.join()

    desk.order(1)
    run_all(exact_app)

    assert waited[0]
    assert desk.say(f"select note from {desk.table}") == [("late",)]


# --- M4: completion with the business writes -------------------------------------------------------


def test_m4_completion_commits_with_the_business_writes(exact_app: Duly, desk: Desk) -> None:
    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["status"], name="receipt")
    def receipt(change: Change, run: Run) -> None:
        with desk.connect() as connection:
            connection.execute("begin immediate" if desk.is_sqlite else "begin")
            change.document(connection=connection)
            connection.execute(
                f"update {desk.table} set status = 'sent' where id = {desk.mark}", (change.key,)
            )
            run.complete(connection)
            connection.execute("commit")

    desk.order(1)
    run_all(exact_app)

    [job] = exact_app.jobs.list()
    assert job.state == "done"
    assert desk.say(f"select status from {desk.table}") == [("sent",)]


def test_m4_a_transaction_that_is_tried_again_completes_as_well(exact_app: Duly, desk: Desk) -> None:
    """The other one lost its completion here: it remembered that it was made, and not that it was undone."""

    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["status"], retry=None)
    def receipt(change: Change, run: Run) -> None:
        for end in ("rollback", "commit"):
            with desk.connect() as connection:
                connection.execute("begin immediate" if desk.is_sqlite else "begin")
                connection.execute(f"update {desk.table} set note = '{end}'")
                run.complete(connection)
                connection.execute(end)

    desk.order(1)
    run_all(exact_app)

    [job] = exact_app.jobs.list()
    assert job.state == "done"
    assert desk.say(f"select note from {desk.table}") == [("commit",)]


def test_m4_an_outdated_row_cannot_complete(exact_app: Duly, desk: Desk) -> None:
    if desk.is_sqlite:
        pytest.skip("SQLite has one writer: nobody changes a row while a body has its transaction")

    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["total"], name="receipt")
    def receipt(change: Change, run: Run) -> None:
        with psycopg.connect(desk.url) as connection:
            change.document(connection=connection)
            if change.values["total"] == 10:
                desk.change("total = 11", 1)
            run.complete(connection)

    desk.order(1)
    run_all(exact_app)

    assert sorted(str(job.state) for job in exact_app.jobs.list()) == ["done", "skipped"]


# --- M5: values before the row, and locks on what is shared ----------------------------------------


def test_m5_values_name_a_lock_before_the_row_is_read(exact_app: Duly, desk: Desk) -> None:
    inside, most = 0, 0
    counting = threading.Lock()

    @exact_app.react(table=desk.table, watch=["status"], retry=Retry(on=LockTaken, first="50ms", attempts=50))
    def receipt(change: Change) -> None:
        nonlocal inside, most
        with exact_app.lock(f"account:{change.values['status']}", wait="8s"):
            with counting:
                inside += 1
                most = max(most, inside)
            change.document()
            time.sleep(0.02)
            with counting:
                inside -= 1

    for number in range(4):
        desk.order(number, "shared")
    run_all(exact_app)

    assert most == 1
    assert exact_app.jobs.count(state="done") == 4


# --- M6, M7: defer and throttle, also when the body raises afterwards ------------------------------


@pytest.mark.parametrize("raises", [False, True])
def test_m6_a_deferral_counts_no_attempt_whatever_the_body_does_next(
    exact_app: Duly, desk: Desk, raises: bool
) -> None:
    attempts: list[int] = []

    @exact_app.react(table=desk.table)
    def receipt(change: Change, run: Run) -> None:
        attempts.append(run.attempt)
        if len(attempts) == 1:
            run.defer("100ms")
            if raises:
                raise RuntimeError("ignored")

    with working(exact_app):
        desk.order(1)
        until(lambda: exact_app.jobs.count(state="done") == 1)

    assert attempts == [1, 1]


@pytest.mark.parametrize("raises", [False, True])
def test_m7_a_throttle_holds_the_task_for_all_and_not_the_run_that_asked(
    exact_app: Duly, desk: Desk, raises: bool
) -> None:
    """Over all workers, unlike there; `scope="process"` keeps it to this one."""
    runs: list[float] = []

    @exact_app.react(table=desk.table, retry=None, name="receipt")
    def receipt(change: Change, run: Run) -> None:
        runs.append(time.monotonic())
        if len(runs) == 1:
            run.throttle("700ms", reason="503")
            if raises:
                raise RuntimeError("after the throttle")

    with working(exact_app, concurrency=1):
        desk.order(1)
        until(lambda: len(runs) == 1)
        until(lambda: exact_app.store.run(exact_app.store.switches()) or time.monotonic() > runs[0] + 0.7)
        desk.order(2)
        until(lambda: len(runs) == 2)

    assert runs[1] - runs[0] > 0.6
    assert exact_app.jobs.count(state="failed") == int(raises)


# --- M8, M9: stopping, and healing by itself -------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_m8_a_signal_lets_what_runs_finish(
    exact_place: Place,
    exact_app: Duly,
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    followers.prepare(monkeypatch, exact_place.url, desk.table, tmp_path)
    worker = WorkerProcess(tmp_path / "worker.log", target=followers.TARGET)
    try:
        desk.order(1, "slow")
        until(lambda: followers.lines(tmp_path, "began") == ["1"])
        worker.send(number)
        followers.let(tmp_path)

        assert worker.wait(60) == 0
    finally:
        worker.end()
    assert followers.lines(tmp_path, "ended") == ["1"]
    [job] = exact_app.jobs.list()
    assert job.state == "done"


def test_m9_there_is_no_leader_whose_death_matters(
    exact_place: Place, exact_app: Duly, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers.prepare(monkeypatch, exact_place.url, desk.table, tmp_path)
    workers = [WorkerProcess(tmp_path / f"{name}.log", target=followers.TARGET, **SHORT) for name in "ab"]
    try:
        desk.order(1, "quick")
        until(lambda: followers.lines(tmp_path, "ended") == ["1"])
        for victim in (0, 1):
            workers[victim].kill()
            desk.change(f"total = {victim + 100}", 1)
            until(partial(has_ended, tmp_path, victim + 2))
            workers[victim] = WorkerProcess(tmp_path / f"{victim}.log", target=followers.TARGET, **SHORT)
    finally:
        for worker in workers:
            worker.end()

    assert exact_app.jobs.count(state="failed") == 0


def has_ended(folder: Path, times: int) -> bool:
    return len(followers.lines(folder, "ended")) >= times


# --- M10: policies ---------------------------------------------------------------------------------


def test_m10_retries_reset_when_the_data_changed(exact_app: Duly, desk: Desk) -> None:
    attempts: list[tuple[int, int]] = []

    @exact_app.react(table=desk.table, watch=["total"], retry=Retry(on=ValueError, first="1h", attempts=3))
    def receipt(change: Change, run: Run) -> None:
        attempts.append((change.values["total"], run.attempt))
        raise ValueError("boom")

    desk.order(1)
    run_all(exact_app)
    exact_app.jobs.postpone(state="waiting")
    run_all(exact_app)
    desk.change("total = 11", 1)
    run_all(exact_app)

    assert attempts == [(10, 1), (10, 2), (11, 1)]


def test_m10_without_a_word_five_attempts_are_made(exact_app: Duly, desk: Desk) -> None:
    attempts: list[int] = []

    @exact_app.react(table=desk.table)
    def receipt(change: Change, run: Run) -> None:
        attempts.append(run.attempt)
        raise ValueError("boom")

    desk.order(1)
    for _ in range(6):
        run_all(exact_app)
        exact_app.jobs.postpone(state="waiting")

    assert attempts == [1, 2, 3, 4, 5]
    assert exact_app.jobs.count(state="failed") == 1


def test_m10_a_retry_by_hand_of_a_running_one_makes_one_more_run(exact_app: Duly, desk: Desk) -> None:
    gate, runs = Gate(), list[int]()

    @exact_app.react(table=desk.table, name="receipt")
    def receipt(change: Change) -> None:
        runs.append(change.key)
        if len(runs) == 1:
            gate.wait_here()

    with working(exact_app):
        desk.order(1)
        gate.reached()
        assert exact_app.reactions.retry("receipt", state="running") == 1
        until(lambda: exact_app.jobs.count(state="waiting") == 1)
        gate.open()
        until(lambda: runs == [1, 1])

    assert len(exact_app.reactions.history("receipt", 1)) == 2


def test_m10_the_list_tells_how_each_task_stands(exact_app: Duly, desk: Desk) -> None:
    paid(exact_app, desk)
    desk.order(1)
    desk.order(2, "new")
    run_all(exact_app)

    [view] = exact_app.reactions.list()

    assert (view.task, view.table, view.state, view.matched) == ("receipt", desk.table, "active", 1)
    assert (view.pending, view.skipped, view.is_reconciling) == (0, 0, False)
    assert view.reconciled_at is not None
    assert exact_app.reactions.foretell("receipt") == 0
    assert exact_app.reactions.count("receipt", state="done") == 1


def test_m10_rows_are_cancelled_by_a_condition_on_them(exact_app: Duly, desk: Desk) -> None:
    paid(exact_app, desk, debounce="1h")
    desk.order(1, total=1)
    desk.order(2, total=2)
    run_all(exact_app)

    acted = exact_app.reactions.cancel("receipt", where="total > 1")

    assert len(acted.changed) == 1
    assert [job.key for job in exact_app.jobs.list(state="cancelled")] == ["2"]
