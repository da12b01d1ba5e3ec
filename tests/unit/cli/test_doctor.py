"""doctor and migrate: what is wrong, and what to do about it."""

from __future__ import annotations

import os
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.cli.checks import Level, lag, orphans, stuck, workers
from duly.cli.status import Overview, look
from duly.job import Request
from duly.stores.contract import Ask, Lane, WorkerCard


def levels(document: dict[str, Any]) -> dict[str, str]:
    return {row["check"]: row["level"] for row in document["checks"]}


def test_a_fresh_store_is_well_but_for_missing_workers(duly: Command, shop: Shop) -> None:
    answer = duly("doctor", "--json")

    assert answer.code == 0
    assert answer.document["ok"] is True
    found = levels(answer.document)
    assert found.pop("workers") == "warn"
    assert set(found.values()) == {"ok"}


def test_work_that_waits_for_nobody_is_a_failure_with_a_remedy(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue("ann")

    answer = duly("doctor")

    assert answer.code == 1
    assert "fail  workers" in answer.out
    assert "→ start one: duly worker module:app" in answer.out


def test_a_store_that_is_not_there_fails_without_more_ado(duly: Command, folder: Path) -> None:
    answer = duly("doctor", "--json")

    assert answer.code == 1
    assert levels(answer.document) == {"store": "fail", "disk": "ok"}
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_fails(duly: Command, shop: Shop) -> None:
    shop.app.close()
    shop.folder.chmod(0o500)
    try:
        answer = duly("doctor", "--json")
    finally:
        shop.folder.chmod(0o700)

    assert answer.code == 1


def test_failures_and_pauses_are_warnings(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue("nobody")
    shop.work()
    shop.app.pause(queue="io")

    found = levels(duly("doctor", "--json").document)

    assert (found["failures"], found["held"]) == ("warn", "warn")


def overview(shop: Shop, **changes: Any) -> Overview:
    seen = look(shop.app)
    facts = {name: getattr(seen, name) for name in ("url", "now", "census", "workers", "switches")}
    return Overview(**{**facts, **changes})


def card(shop: Shop, **changes: Any) -> WorkerCard:
    facts: dict[str, Any] = {
        "id": "w1", "name": "ann", "host": "h", "pid": 1, "started_at": shop.app.clock.now(), "slots": 4
    }  # fmt: skip
    return WorkerCard(**{**facts, **changes})


def test_a_task_no_live_worker_knows_is_named(shop: Shop) -> None:
    shop.task("mail").enqueue("ann")
    seen = overview(shop, workers=[(card(shop, tasks=("other",)), shop.app.clock.now(), True)])

    finding = orphans(seen)

    assert finding.level is Level.FAIL
    assert f"task '{shop.module}.mail'" in finding.found


def test_a_queue_no_live_worker_serves_is_named(shop: Shop) -> None:
    task = shop.task("fetch")
    task.enqueue(1)
    seen = overview(
        shop, workers=[(card(shop, tasks=(task.name,), queues=("default",)), shop.app.clock.now(), True)]
    )

    finding = orphans(seen)

    assert finding.level is Level.FAIL
    assert "queue 'io'" in finding.found


def test_two_versions_at_work_are_a_deploy_to_finish(shop: Shop) -> None:
    now = shop.app.clock.now()
    crew = [(card(shop, version=version), now, True) for version in ("1.0", "1.1")]

    assert workers(overview(shop, workers=crew)).level is Level.WARN


@pytest.mark.parametrize(("minutes", "level"), [(0, Level.OK), (1, Level.WARN), (10, Level.FAIL)])
def test_lag_is_judged_by_the_oldest_ready_job(shop: Shop, minutes: int, level: Level) -> None:
    shop.task("mail").enqueue("ann")
    seen = overview(shop)

    later = overview(shop, census=seen.census, now=seen.now + timedelta(minutes=minutes))

    assert lag(later).level is level


def test_a_lease_that_ran_out_and_was_not_recovered_is_found(shop: Shop) -> None:
    store, task = shop.app.store, shop.task("mail").name
    store.run(store.put([Request(id="0" * 32, task=task, arguments="[[],{}]")]))
    ask = Ask(worker="gone", lanes={task: Lane(task)}, lease=timedelta(microseconds=1), limit=1, free=1)
    (claim,) = store.run(store.claim(ask)).claims

    finding = stuck(shop.app, overview(shop, workers=[]))

    assert finding.level is Level.FAIL
    assert claim.id in finding.found


def test_migrate_has_nothing_to_do_on_a_fresh_store(duly: Command, shop: Shop) -> None:
    checked = duly("migrate", "--check", "--json")

    assert (checked.code, checked.document["pending"]) == (0, [])
    assert duly("migrate").code == 0


def test_migrate_check_lists_what_is_pending_and_changes_nothing(duly: Command, folder: Path) -> None:
    checked = duly("migrate", "--check", "--json", "--url", "sqlite:///new.db")

    assert checked.code == 1
    assert checked.document["pending"]
    assert list(folder.iterdir()) == []


def test_migrate_creates_and_tells(duly: Command, folder: Path) -> None:
    answer = duly("migrate", "--json", "--url", "sqlite:///new.db")

    assert answer.code == 0
    assert answer.document["applied"]
    assert answer.document["pending"] == []
    with sqlite3.connect("new.db") as connection:
        assert connection.execute("select count(*) from duly_schema").fetchone()[0] >= 1
    connection.close()
