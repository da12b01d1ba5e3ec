"""What the command line says about an outbox: status, doctor, migrate."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.outbox.conftest import Database
from tests.servers_redis import shared_url

from duly import Duly
from duly.cli import main
from duly.cli.checks import Level, outbox
from duly.testing import VirtualClock


@pytest.fixture(autouse=True)
def settings(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a deployment sets them, for commands that need no code."""
    monkeypatch.setenv("DULY_URL", shared_url())
    monkeypatch.setenv("DULY_OUTBOX", database.url)
    monkeypatch.setenv("DULY_NAMESPACE", database.namespace)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def commit(app: Duly, connection: Any) -> None:
    task = app.tasks.get("send") or app.task(name="send")(print)
    task.using(connection=connection).enqueue(1)
    connection.commit()


def test_status_counts_what_waits_in_the_outbox(
    app: Duly, connection: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(app, connection)

    code, document = said(capsys, "status")

    assert (code, document["outbox"]["waiting"], document["outbox"]["set_aside"]) == (0, 1, 0)


def test_migrate_covers_the_outbox(capsys: pytest.CaptureFixture[str]) -> None:
    check = said(capsys, "migrate", "--check")
    done = said(capsys, "migrate")
    again = said(capsys, "migrate", "--check")

    assert (check[0], check[1]["pending"]) == (1, ["outbox 0001_start"])
    assert (done[0], done[1]["applied"]) == (0, ["outbox 0001_start"])
    assert (again[0], again[1]["pending"]) == (0, [])


def test_doctor_is_content_with_an_empty_outbox(app: Duly, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = said(capsys, "doctor")

    [row] = [row for row in document["checks"] if row["check"] == "outbox"]
    assert row["level"] == "ok"


def test_doctor_finds_requests_that_nobody_carries(
    database: Database, connection: Any, clock: VirtualClock
) -> None:
    app = Duly(shared_url(), outbox=database.url, namespace=database.namespace, clock=clock)
    app.open()
    commit(app, connection)
    clock.advance(timedelta(minutes=6))

    finding = outbox(app)
    app.close()

    assert finding.level is Level.FAIL
    assert "1 request waiting" in finding.found
    assert "start a worker" in finding.remedy


def test_doctor_tells_why_a_request_was_set_aside(app: Duly, connection: Any) -> None:
    commit(app, connection)
    box = app.outbox
    assert box is not None
    [slip] = box.run(box.lease(timedelta(seconds=30), 1)).slips
    box.run(box.set_aside(slip, "TypeError: priority is of type str", timedelta(hours=1)))

    finding = outbox(app)

    assert finding.level is Level.WARN
    assert "TypeError: priority" in finding.found


def test_doctor_names_an_outbox_that_does_not_answer(app: Duly) -> None:
    broken = Duly(shared_url(), outbox="postgresql://nobody@127.0.0.1:1/none")

    finding = outbox(broken)

    assert (finding.level, "cannot be reached" in finding.found) == (Level.FAIL, True)
