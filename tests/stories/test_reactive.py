"""Tasks that follow a table: the latest committed state of each row is dealt with, and no other."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import pytest
import sqlalchemy
from tests.stories.arrange import Gate, run_all, several_working, until, working
from tests.stories.conftest import OPTIONS, Place
from tests.stories.desk import Desk, paid
from tests.stories.processes import ROOT

from duly import BadRequest, Change, ConditionFailed, DefinitionError, Duly, Run, State
from duly.errors import StoreBusy
from duly.stores.changes import Changes, Glance


@pytest.fixture
def desk(exact_place: Place, exact_app: Duly) -> Generator[Desk, None, None]:
    made = Desk(exact_place.url, f"orders_{exact_place.namespace}")
    yield made
    made.drop()


def states(app: Duly, task: str = "receipt") -> list[str]:
    return [str(job.state) for job in app.jobs.list(task=task)]


# --- what runs ------------------------------------------------------------------------------------


def test_a_row_runs_when_it_comes_to_match_and_when_it_changes(exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)
    desk.order(1)
    desk.order(2, "new")
    run_all(exact_app)

    desk.change("status = 'paid'", 2)
    desk.change("note = 'gift'", 1)
    run_all(exact_app)
    desk.change("total = 99", 1)
    run_all(exact_app)

    assert [(key, row["total"]) for key, row in told] == [(1, 10), (2, 10), (1, 99)]


def test_a_serving_worker_finds_changes_by_itself(exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)

    with working(exact_app):
        desk.order(1)
        until(lambda: told.keys == [1])
        desk.change("total = 11", 1)
        until(lambda: told.keys == [1, 1])

    assert told[-1] == (1, {"status": "paid", "total": 11})


def test_an_async_body_awaits_its_row(exact_app: Duly, desk: Desk) -> None:
    rows: list[Any] = []

    @exact_app.react(table=desk.table, where="status = 'paid'")
    async def receipt(run: Run, *, change: Change) -> None:
        rows.append((run.key, change.values["total"], (await change.adocument(["total"]))["total"]))

    desk.order(1)
    run_all(exact_app)

    assert rows == [("1", 10, 10)]


def test_changes_during_a_run_make_exactly_one_more(exact_app: Duly, desk: Desk) -> None:
    gate, seen = Gate(), list[Any]()

    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["total"])
    def receipt(change: Change) -> None:
        seen.append(change.values["total"])
        if len(seen) == 1:
            gate.wait_here()

    desk.order(1, total=0)
    with working(exact_app):
        gate.reached()
        for total in range(1, 21):
            desk.change(f"total = {total}", 1)
        until(lambda: exact_app.jobs.count(state="waiting") == 1)
        until(lambda: '"total":20' in exact_app.jobs.list(state="waiting")[0].arguments)
        gate.open()
        until(lambda: len(seen) == 2)
        until(lambda: exact_app.jobs.count(state="done") == 2)

    assert seen == [0, 20]


def test_rolled_back_changes_make_no_run(exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)
    run_all(exact_app)

    with suppress(ZeroDivisionError), desk.transaction() as say:
        say(f"insert into {desk.table} (id, status) values (1, 'paid')")
        _ = 1 / 0
    with desk.transaction() as say:
        say("savepoint part")
        say(f"insert into {desk.table} (id, status) values (2, 'paid')")
        say("rollback to savepoint part")
        say(f"insert into {desk.table} (id, status, total) values (3, 'paid', 1)")
    run_all(exact_app)

    assert told.keys == [3]


def test_a_change_committed_late_by_a_long_transaction_is_not_lost(exact_app: Duly, desk: Desk) -> None:
    if desk.is_sqlite:
        pytest.skip("SQLite has one writer: nobody commits meanwhile")
    told = paid(exact_app, desk)
    run_all(exact_app)

    with desk.transaction() as say:
        say(f"insert into {desk.table} (id, status) values (1, 'paid')")
        desk.order(2)
        run_all(exact_app)
        assert told.keys == [2]
    run_all(exact_app)

    assert told.keys == [1, 2]


def test_a_table_of_sqlalchemy_says_all_there_is_to_say(exact_app: Duly, desk: Desk) -> None:
    table = sqlalchemy.Table(
        desk.table,
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("status", sqlalchemy.Text),
    )
    keys: list[int] = []

    @exact_app.react(table=table, where=table.c.status.in_(["paid", "it's"]))
    def receipt(change: Change) -> None:
        keys.append(change.key)

    desk.order(1)
    desk.order(2, "new")
    desk.order(3, "it''s")
    run_all(exact_app)

    assert sorted(keys) == [1, 3]


def test_a_model_of_django_is_followed_through_bulk_operations_and_migrations(
    exact_place: Place, exact_app: Duly
) -> None:
    table = f"django_{exact_place.namespace}"
    words = [exact_place.url, exact_place.namespace, table]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.stories.programs.following_site", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    steps = json.loads(ran.stdout)

    assert steps["saved"] == [[1, "paid"], [3, "it's 100% paid"]]
    assert steps["in bulk"] == [[4, "paid"], [5, "paid"]]
    assert steps["after a migration"] == [[6, "paid"]]
    assert "another table" in steps["joins"]
    desk = Desk(exact_place.url, f"unused_{exact_place.namespace}")
    desk.say(f"drop table {table}")
    desk.say(f"drop table {table}_customer")
    desk.drop()


# --- never on an outdated row ---------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("update {} set status = 'refunded'", "no longer matches"),
        ("update {} set total = 11", "has changed"),
        ("delete from {}", "no longer there"),
    ],
)
def test_a_row_that_changed_before_it_is_read_skips_the_run(
    exact_app: Duly, desk: Desk, delivery: str, what: str, reason: str
) -> None:
    effects: list[Any] = []

    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["total"], delivery=delivery)
    def receipt(change: Change) -> None:
        if change.values["total"] == 10:
            desk.say(what.format(desk.table))
        effects.append(change.document()["total"])

    desk.order(1)
    run_all(exact_app)

    job = exact_app.jobs.list(state="skipped")[0]
    assert reason in job.reason
    assert 10 not in effects
    assert job.error is None


def test_no_effect_of_an_outdated_row_is_committed(exact_app: Duly, desk: Desk) -> None:
    """It was right when the body read it, and no longer when it is to be committed."""
    if desk.is_sqlite:
        pytest.skip("SQLite has one writer: nobody changes a row while a body has its transaction")
    desk.say(f"create table if not exists bookings_{desk.table} (id int, total int)")
    desk.say(f"delete from bookings_{desk.table}")

    @exact_app.react(
        table=desk.table, where="status = 'paid'", watch=["total"], delivery="exactly_once", name="book"
    )
    def book(change: Change, run: Run) -> None:
        total = change.document()["total"]
        run.connection.execute(f"insert into bookings_{desk.table} values (%s, %s)", (change.key, total))
        if total == 10:
            desk.change("total = 11", 1)

    desk.order(1)
    run_all(exact_app)

    assert desk.say(f"select * from bookings_{desk.table}") == [(1, 11)]
    assert sorted(states(exact_app, "book")) == ["done", "skipped"]
    desk.say(f"drop table bookings_{desk.table}")


def test_no_effect_of_values_that_were_outdated_already_is_committed(exact_app: Duly, desk: Desk) -> None:
    """The body trusts what it was told and never reads the row, which changes before it writes."""
    desk.say(f"create table if not exists bookings_{desk.table} (id int, total int)")
    desk.say(f"delete from bookings_{desk.table}")

    @exact_app.react(
        table=desk.table, where="status = 'paid'", watch=["total"], delivery="exactly_once", name="book"
    )
    def book(change: Change, run: Run) -> None:
        total = int(change.values["total"])
        if total == 10:
            desk.change("total = 11", 1)
        run.connection.execute(f"insert into bookings_{desk.table} values ({change.key}, {total})")

    desk.order(1)
    run_all(exact_app)

    assert [tuple(row) for row in desk.say(f"select * from bookings_{desk.table}")] == [(1, 11)]
    assert sorted(states(exact_app, "book")) == ["done", "skipped"]
    desk.say(f"drop table bookings_{desk.table}")


def test_what_the_body_writes_to_its_row_does_not_make_it_outdated(exact_app: Duly, desk: Desk) -> None:
    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["status"], delivery="exactly_once")
    def send(change: Change, run: Run) -> None:
        change.document()
        run.connection.execute(
            f"update {desk.table} set status = 'sent' where id = {desk.mark}", (change.key,)
        )

    for number in (1, 2, 3):
        desk.order(number)
    run_all(exact_app)

    assert desk.say(f"select distinct status from {desk.table}") == [("sent",)]
    assert exact_app.jobs.count(state="done") == 3
    assert exact_app.jobs.count(state="waiting") == 0


def test_a_user_who_holds_the_row_puts_an_exactly_once_run_off(exact_app: Duly, desk: Desk) -> None:
    if desk.is_sqlite:
        pytest.skip("SQLite has one writer: a user who holds the row holds the file")
    gate = threading.Event()

    @exact_app.react(table=desk.table, where="status = 'paid'", watch=["status"], delivery="exactly_once")
    def send(change: Change, run: Run) -> None:
        change.document()
        run.connection.execute("select 1")
        gate.set()

    with working(exact_app):
        desk.order(1)
        with desk.transaction() as say:
            say(f"select * from {desk.table} for update")
            assert gate.wait(60)
            until(lambda: any("release" in line.event for job in history(exact_app) for line in job.history))
        until(lambda: exact_app.jobs.count(state="done") == 1)

    [job] = history(exact_app)
    assert job.attempt == 0


def history(app: Duly) -> list[Any]:
    return [app.jobs.get(job.id) for job in app.jobs.list()]


# --- what bad input gets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "number"}, "no column 'number'"),
        ({"watch": ["colour"]}, "no column 'colour'"),
        ({"where": "colour = 1"}, "colour"),
        ({"where": "id in (select 1)"}, "@app.schedule"),
        ({"key": "status"}, "does not name one row"),
    ],
)
def test_a_mistake_in_the_definition_ends_the_worker_at_its_start(
    exact_app: Duly, desk: Desk, options: dict[str, Any], words: str
) -> None:
    paid(exact_app, desk, **options)

    with pytest.raises(DefinitionError) as refusal:
        run_all(exact_app)

    assert words in str(refusal.value)
    desk.order(1)


@pytest.mark.parametrize("url", ["memory://", "redis://localhost:1/0"])
def test_a_store_that_cannot_follow_tables_says_so_by_name(url: str) -> None:
    app = Duly(url)

    @app.react(table="orders")
    def receipt(change: Change) -> None: ...

    with pytest.raises(DefinitionError, match=r"sqlite:/// or\s+postgresql://"):
        run_all(app)


def test_options_that_make_no_sense_on_a_table_are_refused() -> None:
    app = Duly("memory://")

    with pytest.raises(DefinitionError, match="overlap"):

        @app.react(table="orders", overlap="skip")
        def receipt(change: Change) -> None: ...

    with pytest.raises(DefinitionError, match="'colour'"):

        @app.react(table="orders")
        def wrong(change: Change, colour: str) -> None: ...


def test_a_reactive_task_is_not_enqueued(exact_app: Duly, desk: Desk) -> None:
    @exact_app.react(table=desk.table)
    def receipt(change: Change) -> None: ...

    with pytest.raises(BadRequest, match=r"app\.reactions\.retry"):
        receipt.enqueue(17)


def test_a_lock_without_a_transaction_is_refused(exact_app: Duly, desk: Desk) -> None:
    refusals: list[str] = []

    @exact_app.react(table=desk.table, retry=None)
    def receipt(change: Change) -> None:
        try:
            change.document(lock=True)
        except BadRequest as error:
            refusals.append(str(error))

    desk.order(1)
    run_all(exact_app)

    assert "connection=" in refusals[0]


def test_a_table_that_disappears_parks_its_task_and_resumes(exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)
    desk.order(1)
    run_all(exact_app)

    desk.say(f"drop table {desk.table}")
    run_all(exact_app)
    [parked] = exact_app.reactions.list()
    Desk(desk.url, desk.table)
    desk.order(2)
    run_all(exact_app)
    [back] = exact_app.reactions.list()

    assert (parked.state, back.state) == ("parked", "active")
    assert "no table" in parked.note
    assert told.keys == [1, 2]


def test_a_condition_that_breaks_on_a_row_parks_its_task_and_no_other(exact_app: Duly, desk: Desk) -> None:
    if desk.is_sqlite:
        pytest.skip("SQLite makes a number of any text")
    told = paid(exact_app, desk)

    @exact_app.react(table=desk.table, where="note::int > 5", name="broken")
    def broken(change: Change) -> None: ...

    with working(exact_app):
        desk.say(f"insert into {desk.table} (id, status, total, note) values (1, 'paid', 1, 'x')")
        until(lambda: told.keys == [1])

    parked = {view.task: view for view in exact_app.reactions.list()}
    assert parked["broken"].state == "parked"
    assert "invalid input syntax" in parked["broken"].note
    assert parked["receipt"].state == "active"


# --- two of everything ----------------------------------------------------------------------------


def test_several_workers_plan_together(exact_place: Place, exact_app: Duly, desk: Desk) -> None:
    others = [Duly(exact_place.url, **OPTIONS) for _ in range(2)]
    tolds = [paid(app, desk) for app in (exact_app, *others)]

    with several_working(exact_app, *others):
        for number in range(40):
            desk.order(number)
            desk.change("total = 11", number)
        until(lambda: exact_app.jobs.count(state="waiting") + exact_app.jobs.count(state="running") == 0)
        until(lambda: {key for told in tolds for key in told.keys} == set(range(40)))

    last = {key: row["total"] for told in tolds for key, row in told}
    assert len(last) == 40
    for app in others:
        app.close()


def test_a_worker_without_the_code_plans_for_one_that_has_it(
    exact_place: Place, exact_app: Duly, desk: Desk
) -> None:
    told = paid(exact_app, desk)
    run_all(exact_app)
    other = Duly(exact_place.url, **OPTIONS)

    with working(other):
        desk.order(1)
        until(lambda: exact_app.jobs.count(state="waiting") == 1)
    run_all(exact_app)

    assert told.keys == [1]
    other.close()


def test_two_versions_at_once_do_not_play_ping_pong(exact_place: Place, exact_app: Duly, desk: Desk) -> None:
    other = Duly(exact_place.url, **OPTIONS)
    old, new = paid(exact_app, desk), paid(other, desk, where="status in ('paid', 'new')")
    desk.order(1)
    desk.order(2, "new")

    run_all(exact_app)
    run_all(other)
    for _ in range(3):
        run_all(exact_app)
        run_all(other)

    assert old.keys == [1]
    assert new.keys == [2]
    assert exact_app.jobs.count(state=State.DONE) == 2
    other.close()


def test_a_condition_failed_of_the_bodys_own_is_a_skip_too(exact_app: Duly, desk: Desk) -> None:
    @exact_app.react(table=desk.table, name="receipt")
    def receipt(change: Change) -> None:
        raise ConditionFailed("not on Sundays")

    desk.order(1)
    run_all(exact_app)

    assert states(exact_app) == ["skipped"]


def test_a_store_that_is_away_puts_the_run_off_whatever_its_policy(
    exact_app: Duly, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = paid(exact_app, desk, retry=None)
    store = cast(Changes, exact_app.store)
    whole, faults = store.read_row, [StoreBusy("the file is locked")]

    def read_row(glance: Glance) -> Any:
        if faults:
            raise faults.pop()
        return whole(glance)

    monkeypatch.setattr(store, "read_row", read_row)
    monkeypatch.setattr("duly.rows.AWAY", timedelta(milliseconds=50))
    desk.order(1)
    with working(exact_app):
        until(lambda: states(exact_app) == ["done"])

    (job,) = exact_app.jobs.list(task="receipt")
    assert (told.keys, job.attempt, job.deferrals) == ([1], 0, 1)


def test_people_are_told_that_a_table_is_gone(exact_app: Duly, desk: Desk) -> None:
    paid(exact_app, desk)
    run_all(exact_app)
    desk.say(f"drop table {desk.table}")

    for ask in (exact_app.reactions.retry, exact_app.reactions.count, exact_app.reactions.foretell):
        with pytest.raises(DefinitionError, match="There is no table"):
            ask("receipt")
