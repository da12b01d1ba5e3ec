"""retry and cancel: by id, or by what jobs have in common."""

from __future__ import annotations

import io
import sys

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.job import State


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def failed(shop: Shop, count: int) -> list[str]:
    jobs = shop.task("mail").enqueue_many([(("nobody",), {})] * count)
    shop.work()
    return [job.id for job in jobs]


def test_a_failed_job_is_retried_by_id(duly: Command, shop: Shop) -> None:
    (job_id,) = failed(shop, 1)

    answer = duly("retry", job_id, "--json")

    assert answer.code == 0
    assert answer.document == {"changed": [job_id], "refused": {}}
    job = shop.app.jobs.get(job_id)
    assert job.state is State.WAITING
    assert job.history[-1].event == "revive"
    assert job.history[-1].note


def test_a_waiting_job_is_cancelled_by_id(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")

    answer = duly("cancel", job.id)

    assert (answer.code, answer.out) == (0, "cancelled 1 job\n")
    assert job.state() is State.CANCELLED


def test_what_is_refused_is_named_with_its_reason_and_the_exit_code_is_one(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")

    answer = duly("retry", job.id, "f" * 32)

    assert answer.code == 1
    assert f"{job.id}: not retried: already waiting" in answer.out
    assert f"{'f' * 32}: not retried: no job has this id" in answer.out


def test_a_filter_acts_on_all_that_match_once_confirmed(duly: Command, shop: Shop) -> None:
    ids = failed(shop, 3)
    shop.task("fetch").enqueue(1)

    answer = duly("retry", "--task", "mail", "--yes", "--json")

    assert answer.code == 0
    assert sorted(answer.document["changed"]) == sorted(ids)


def test_many_need_a_word_of_confirmation_where_nobody_can_be_asked(duly: Command, shop: Shop) -> None:
    failed(shop, 3)

    answer = duly("retry", "--task", "mail")

    assert answer.code == 2
    assert "retry 3 jobs? Say --yes" in answer.err
    assert shop.app.jobs.count(state="failed") == 3


@pytest.mark.parametrize(("typed", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 2), ("", 1, 2)])
def test_on_a_terminal_the_count_is_shown_and_asked_about(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, left: int
) -> None:
    failed(shop, 2)
    monkeypatch.setattr(sys, "stdin", Terminal(typed))

    answer = duly("retry", "--state", "failed")

    assert answer.code == code
    assert "retry 2 jobs? [y/N]" in answer.err
    assert shop.app.jobs.count(state="failed") == left


def test_a_filter_without_a_state_means_the_states_that_make_sense(duly: Command, shop: Shop) -> None:
    done = shop.task("mail").enqueue("ann")
    failed(shop, 1)
    waiting = shop.task("mail").enqueue("bob")

    cancelled = duly("cancel", "--task", "mail", "--yes", "--json").document
    retried = duly("retry", "--task", "mail", "--yes", "--json").document

    assert cancelled == {"changed": [waiting.id], "refused": {}}
    assert len(retried["changed"]) == 1
    assert done.state() is State.DONE


def test_neither_ids_nor_filters_is_a_mistake(duly: Command, shop: Shop) -> None:
    answer = duly("cancel")

    assert answer.code == 2
    assert "say which jobs to cancel" in answer.err


def test_pages_are_walked_even_when_all_of_the_first_is_refused(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.bulk.BATCH", 2)
    possible = failed(shop, 3)
    outdated = [shop.task("mail").using(key=f"key {n}").enqueue("nobody") for n in range(4)]
    shop.work()
    for number in range(4):
        shop.task("mail").using(key=f"key {number}", run_after="1h").enqueue("ann")

    document = duly("retry", "--task", "mail", "--yes", "--json").document

    assert sorted(document["changed"]) == sorted(possible)
    assert sorted(document["refused"]) == sorted(job.id for job in outdated)


def test_a_filter_leaves_the_clockwork_alone(duly: Command, shop: Shop) -> None:
    shop.work()  # puts the schedule's own job

    answer = duly("cancel", "--state", "waiting", "--yes", "--json")

    assert answer.document == {"changed": [], "refused": {}}
    assert shop.app.jobs.count(queue="duly.schedules", state="waiting") == 1


def test_orders_from_the_terminal_are_audited(duly: Command, shop: Shop) -> None:
    shop.task("mail").using(run_after="1h").enqueue_many([((str(n),), {}) for n in range(3)])
    duly("cancel", "--task", "mail", "--yes")
    duly("pause", "--queue", "io", "--reason", "\x1b[31mfire", "-a", shop.target)
    duly("trigger", "nightly", "-a", shop.target)

    document = duly("audit", "--json").document
    text = duly("audit", "--limit", "2").out

    orders = [(row["order"], row["changed"]) for row in document["orders"]]
    assert orders == [("trigger", 1), ("pause", 1), ("cancel", 3)]
    assert all(row["by"] and row["is_complete"] for row in document["orders"])
    assert document["orders"][2]["about"]["task"] == [f"{shop.module}.mail"]
    assert document["next"] is None
    assert "queue io, reason \\x1b[31mfire" in text


def test_no_orders_are_told_in_words(duly: Command, shop: Shop) -> None:
    assert duly("audit").out == "no orders\n"


# --- previews and times ---------------------------------------------------------------------------


def test_a_dry_run_counts_and_shows_whom_filters_mean_and_changes_nothing(duly: Command, shop: Shop) -> None:
    ids = failed(shop, 3)

    answer = duly("retry", "--task", "mail", "--dry-run")

    assert answer.code == 0
    assert answer.out.startswith("would retry 3 jobs")
    assert all(job_id in answer.out for job_id in ids)
    assert "\x1b" not in answer.out
    assert shop.app.jobs.count(state="failed") == 3


def test_what_joins_while_somebody_is_asked_is_not_touched(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = failed(shop, 2)
    later: list[str] = []

    class Slow(Terminal):
        def isatty(self) -> bool:
            later.extend(failed(shop, 1))
            return True

    monkeypatch.setattr(sys, "stdin", Slow("y\n"))

    answer = duly("retry", "--task", "mail")

    assert answer.out == "retried 2 jobs\n"
    assert {shop.app.jobs.get(one).state for one in shown} == {State.WAITING}
    assert shop.app.jobs.get(later[0]).state is State.FAILED


def test_an_order_by_filter_is_one_line_of_the_audit_with_exact_counts(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue_many([(("ann",), {})] * 1_100)

    duly("cancel", "--task", "mail", "--yes")

    [deed] = shop.app.audit.list()
    assert (deed.order, deed.changed, deed.refused, deed.is_complete) == ("cancel", 1_100, 0, True)


@pytest.mark.parametrize(
    ("words", "away"), [(["--after", "10m"], 600), (["--at", "2100-01-01T00:00Z"], None), (["--now"], 0)]
)
def test_a_waiting_job_is_postponed_and_hurried(
    duly: Command, shop: Shop, words: list[str], away: float | None
) -> None:
    job = shop.task("mail").using(run_after="1h").enqueue("ann")
    before = shop.app.clock.now()

    answer = duly("postpone", job.id, *words)

    assert (answer.code, answer.out) == (0, "postponed 1 job\n")
    ready_at = shop.app.jobs.get(job.id).ready_at
    assert ready_at is not None
    if away is None:
        assert ready_at.isoformat() == "2100-01-01T00:00:00+00:00"
    else:
        assert abs((ready_at - before).total_seconds() - away) < 60


@pytest.mark.parametrize("words", [[], ["--now", "--after", "1h"], ["--at", "2100-01-01"], ["--at", "soon"]])
def test_a_postponement_needs_one_clear_time(duly: Command, shop: Shop, words: list[str]) -> None:
    job = shop.task("mail").using(run_after="1h").enqueue("ann")
    due = shop.app.jobs.get(job.id).ready_at

    answer = duly("postpone", job.id, *words)

    assert answer.code == 2
    assert shop.app.jobs.get(job.id).ready_at == due


def test_states_an_order_cannot_be_for_are_refused(duly: Command, shop: Shop) -> None:
    failed(shop, 1)

    answer = duly("postpone", "--state", "failed", "--now", "--yes")

    assert answer.code != 0
    assert "cannot be postponed" in answer.err
