"""Reactive tasks, as an operator sees and handles them."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest
from tests.stories.arrange import run_all, working
from tests.stories.conftest import Place
from tests.stories.desk import Desk, paid

from duly import Duly
from duly.cli import main
from duly.cli.words import operator


@pytest.fixture
def desk(exact_place: Place, exact_app: Duly) -> Generator[Desk, None, None]:
    made = Desk(exact_place.url, f"orders_{exact_place.namespace}")
    yield made
    made.drop()


def test_a_dry_run_tells_how_many_rows_would_run_and_runs_none(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    told = paid(exact_app, desk)
    desk.order(1)
    run_all(exact_app)
    assert exact_app.reactions.retry("receipt", key=1) == 1

    assert main(["reconcile", "--dry-run", "--json", "--url", desk.url]) == 0
    first = json.loads(capsys.readouterr().out)
    run_all(exact_app)
    assert main(["reconcile", "receipt", "--dry-run", "--url", desk.url]) == 0
    second = capsys.readouterr().out

    assert first == {"would_run": {"receipt": 1}}
    assert "receipt: 0 rows would run" in second
    assert told.keys == [1, 1]


def test_reconciling_tells_of_its_progress_and_of_how_tasks_stand(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    paid(exact_app, desk)
    desk.order(1)
    run_all(exact_app)

    with working(exact_app):
        assert main(["reconcile", "--wait", "--json", "--url", desk.url]) == 0

    [row] = json.loads(capsys.readouterr().out)["reactions"]
    assert (row["task"], row["state"], row["matched"], row["reconciled"]) == ("receipt", "active", 1, 1)
    [deed] = exact_app.audit.list()
    assert (deed.order, deed.about, deed.by) == ("reconcile", {"task": ["receipt"]}, operator())
    assert not row["is_reconciling"]


def test_a_task_that_is_none_is_named(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    paid(exact_app, desk)
    run_all(exact_app)

    assert main(["reconcile", "reciept", "--url", desk.url]) != 0

    assert "Did you mean 'receipt'?" in capsys.readouterr().err


def test_status_tells_how_reactive_tasks_stand(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    paid(exact_app, desk)
    desk.order(1)
    run_all(exact_app)

    assert main(["status", "--url", desk.url]) == 0
    text = capsys.readouterr().out
    assert main(["status", "--json", "--url", desk.url]) == 0
    document = json.loads(capsys.readouterr().out)

    assert desk.table in text
    [row] = document["reactions"]
    assert (row["task"], row["state"], row["matched"]) == ("receipt", "active", 1)


def test_rows_are_listed_retried_and_cancelled_by_a_condition_on_them(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    told = paid(exact_app, desk)
    for number in (1, 2, 3):
        desk.order(number, total=number * 10)
    run_all(exact_app)
    where = ["--task", "receipt", "--where", "total > 15", "--state", "done", "--json", "--url", desk.url]

    assert main(["jobs", *where]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert main(["retry", "--yes", *where]) == 0
    retried = json.loads(capsys.readouterr().out)
    run_all(exact_app)
    assert main(["cancel", "--yes", "--task", "receipt", "--where", "total > 15", "--url", desk.url]) == 0

    assert {job["key"] for job in listed["jobs"]} == {"2", "3"}
    assert len(retried["changed"]) == 2
    assert told.keys == [1, 2, 2, 3, 3]
    assert "cancelled 0 jobs" in capsys.readouterr().out


def test_a_condition_on_rows_needs_one_task(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["jobs", "--where", "total > 15", "--url", desk.url]) == 2

    assert "say which with --task" in capsys.readouterr().err


def test_migrating_looks_after_triggers(exact_app: Duly, desk: Desk) -> None:
    told = paid(exact_app, desk)
    run_all(exact_app)
    drop_triggers(desk)

    assert main(["migrate", "--url", desk.url]) == 0
    desk.order(1)
    run_all(exact_app)

    assert told.keys == [1]
    assert len(triggers(desk)) == 4


def triggers(desk: Desk) -> list[str]:
    text = (
        f"select name from sqlite_master where type = 'trigger' and tbl_name = '{desk.table}'"
        if desk.is_sqlite
        else f"select tgname from pg_trigger where tgrelid = '{desk.table}'::regclass and not tgisinternal"
    )
    return [name for (name,) in desk.say(text)]


def drop_triggers(desk: Desk) -> None:
    for name in triggers(desk):
        desk.say(f"drop trigger {name}" + ("" if desk.is_sqlite else f" on {desk.table}"))
