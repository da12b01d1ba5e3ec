"""pause, resume, schedules, trigger: what stands still and what runs by itself."""

from __future__ import annotations

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.job import State


def held(duly: Command) -> list[tuple[str, str]]:
    return [(row["scope"], row["name"]) for row in duly("status", "--json").document["held"]]


def test_a_task_is_held_by_the_last_part_of_its_name_and_goes_on(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")

    paused = duly("pause", "mail", "--reason", "too many letters", "-a", shop.target)
    shop.work()

    assert paused.code == 0
    assert held(duly) == [("task", f"{shop.module}.mail")]
    assert job.state() is State.WAITING

    resumed = duly("resume", "mail")
    shop.work()

    assert resumed.code == 0
    assert held(duly) == []
    assert job.state() is State.DONE


def test_queues_and_schedules_are_held_by_option(duly: Command, shop: Shop) -> None:
    shop.work()  # so that the schedule is known without the code

    duly("pause", "--queue", "default,io", "--schedule", "nightly", "-a", shop.target)

    assert sorted(held(duly)) == [("queue", "default"), ("queue", "io"), ("schedule", "nightly")]
    assert duly("resume", "--schedule", "nightly").code == 0
    assert ("schedule", "nightly") not in held(duly)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mial"], "nobody has heard of a task 'mial'"),
        (["--queue", "defualt"], "nobody has heard of a queue 'defualt'. Did you mean 'default'?"),
        (["--schedule", "nihgtly"], "nobody has heard of a schedule 'nihgtly'. Did you mean 'nightly'?"),
    ],
)
def test_a_mistyped_name_holds_nothing(duly: Command, shop: Shop, words: list[str], message: str) -> None:
    answer = duly("pause", "mail", *words, "-a", shop.target)

    assert answer.code == 1
    assert message in answer.err
    assert held(duly) == []


def test_saying_nothing_to_hold_is_a_mistake(duly: Command, shop: Shop) -> None:
    assert duly("pause").code == 2


def test_resuming_what_was_not_held_says_so(duly: Command, shop: Shop) -> None:
    answer = duly("resume", "mail", "-a", shop.target, "--json")

    assert answer.code == 0
    assert answer.document == {
        "changes": [{"scope": "task", "name": f"{shop.module}.mail", "changed": False}]
    }


def test_schedules_are_listed_with_their_timetable(duly: Command, shop: Shop) -> None:
    shop.work()

    text = duly("schedules", shop.target)
    (row,) = duly("schedules", "--json").document["schedules"]

    assert "cron 0 2 * * * Europe/Paris" in text.out
    assert (row["name"], row["cron"], row["is_paused"], row["is_known"]) == (
        "nightly",
        "0 2 * * *",
        False,
        None,
    )
    assert row["next_look"] is not None


def test_a_schedule_that_left_the_code_is_told_apart(duly: Command, shop: Shop) -> None:
    shop.work()
    shop.app.schedule_terms.clear()

    assert "not in the code" in duly("schedules", shop.target).out


def test_a_schedule_is_triggered_once(duly: Command, shop: Shop) -> None:
    answer = duly("trigger", "nightly", "-a", shop.target, "--json")

    assert answer.code == 0
    assert shop.app.jobs.get(answer.document["id"]).task == f"{shop.module}.bill"


def test_triggering_without_the_code_names_the_remedy(duly: Command, shop: Shop) -> None:
    answer = duly("trigger", "nightly")

    assert answer.code == 2
    assert "say -a module:object" in answer.err


def test_triggering_an_unknown_schedule_suggests_the_nearest(duly: Command, shop: Shop) -> None:
    answer = duly("trigger", "nihgtly", "-a", shop.target)

    assert answer.code == 1
    assert "Did you mean 'nightly'?" in answer.err
