"""prune: finished jobs are deleted before their time, those that were counted and no others."""

from __future__ import annotations

import sys

import pytest
from tests.unit.cli.arrange import Command, Shop
from tests.unit.cli.test_orders import Terminal, failed

from duly.job import State


def test_what_ended_is_deleted_and_what_lives_is_left_alone(duly: Command, shop: Shop) -> None:
    failed(shop, 2)
    done = shop.task("mail").enqueue("ann")
    shop.work()
    waiting = shop.task("mail").using(run_after="1h").enqueue("bob")

    answer = duly("prune", "--task", "mail", "--state", "failed", "--yes")

    assert (answer.code, answer.out) == (0, "deleted 2 jobs\n")
    assert {job.id for job in shop.app.jobs.list(task=f"{shop.module}.mail")} == {done.id, waiting.id}
    [deed] = shop.app.audit.list()
    assert (deed.order, deed.changed, deed.is_complete) == ("delete", 2, True)
    assert deed.about["state"] == ["failed"]


def test_a_second_time_finds_nothing(duly: Command, shop: Shop) -> None:
    failed(shop, 2)

    answers = [duly("prune", "--state", "failed", "--yes", "--json").document for _ in range(2)]

    assert answers == [{"deleted": 2}, {"deleted": 0}]


def test_only_what_ended_long_enough_ago_is_meant(duly: Command, shop: Shop) -> None:
    failed(shop, 2)

    young = duly("prune", "--older-than", "1h", "--dry-run").out
    old = duly("prune", "--older-than", "0.000001", "--dry-run", "--json").document

    assert young == "would delete 0 jobs\n"
    assert (old["order"], old["count"], len(old["sample"])) == ("delete", 2, 2)
    assert shop.app.jobs.count(state="failed") == 2


def test_age_and_text_are_told_in_the_audit(duly: Command, shop: Shop) -> None:
    kept, gone = (shop.task("mail").enqueue(name) for name in ("ann", "bob"))
    shop.work()

    answer = duly("prune", shop.target, "--older-than", "0.000001", "--text", "BOB", "--yes")

    assert answer.out == "deleted 1 job\n"
    assert kept.state() is State.DONE
    assert shop.app.jobs.list(ids=[gone.id]) == []
    [deed] = shop.app.audit.list()
    assert deed.about["text"] == "BOB"
    assert deed.about["ended_by"]


def test_what_is_alive_cannot_be_meant(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")

    answer = duly("prune", "--state", "waiting", "--yes")

    assert answer.code == 1
    assert "'waiting' cannot be deleted" in answer.err
    assert job.state() is State.WAITING


@pytest.mark.parametrize("words", [[], ["--yes"], ["--task", "mail", "--where", "true"]])
def test_prune_needs_to_know_which(duly: Command, shop: Shop, words: list[str]) -> None:
    failed(shop, 1)

    assert duly("prune", *words).code == 2
    assert shop.app.jobs.count(state="failed") == 1


def test_many_are_deleted_part_by_part_with_a_line_that_tells_how_far_it_is(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.bulk.BATCH", 2)
    monkeypatch.setattr("duly.cli.progress.SAY", 0.0)
    failed(shop, 5)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))

    answer = duly("prune", "--state", "failed")

    assert "delete 5 jobs? [y/N]" in answer.err
    assert "deleted █████████░░░░░░░░░░░░░░░ 2 of 5" in answer.err
    assert "deleted ████████████████████████ 5 of 5" in answer.err
    assert answer.out == "deleted 5 jobs\n"
    assert "\x1b" not in answer.err
    assert [deed.changed for deed in shop.app.audit.list()] == [5]


def test_an_order_that_is_cut_short_tells_how_far_it_came_and_goes_on_when_said_again(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.bulk.BATCH", 2)
    failed(shop, 5)
    with monkeypatch.context() as patch:
        patch.setattr("duly.cli.progress.Progress.reach", _interrupt_at(4))
        cut = duly("prune", "--state", "failed", "--yes")

    again = duly("prune", "--state", "failed", "--yes")

    assert cut.code == 130
    assert again.out == "deleted 1 job\n"
    deeds = [(deed.changed, deed.is_complete) for deed in shop.app.audit.list()]
    assert deeds == [(1, True), (4, False)]


def _interrupt_at(number: int) -> object:
    def reach(progress: object, done: int) -> None:
        if getattr(progress, "_what", "") == "deleted" and done == number:
            raise KeyboardInterrupt

    return reach


def test_retry_by_text_reaches_those_who_carry_it(duly: Command, shop: Shop) -> None:
    mail = shop.task("mail")
    mail.enqueue_many([(("nobody", "hut"), {}), (("nobody", "house"), {})])
    shop.work()

    shown = duly("retry", "--text", "hou", "--dry-run", "--json").document
    answer = duly("retry", "--text", "hou", "--yes", "--json").document

    assert shown["count"] == 1
    assert answer["changed"] == [shown["sample"][0]["id"]]
    assert shop.app.jobs.count(state="failed") == 1
    assert shop.app.audit.list()[0].about == {"state": ["failed"], "text": "hou"}
