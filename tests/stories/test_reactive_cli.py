"""`duly reconcile`, as an operator uses it."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest
from tests.stories.arrange import run_all, working
from tests.stories.conftest import Place
from tests.stories.desk import Desk, paid

from duly import Duly
from duly.cli import main


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
    assert not row["is_reconciling"]


def test_a_task_that_is_none_is_named(
    exact_app: Duly, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    paid(exact_app, desk)
    run_all(exact_app)

    assert main(["reconcile", "reciept", "--url", desk.url]) != 0

    assert "Did you mean 'receipt'?" in capsys.readouterr().err
