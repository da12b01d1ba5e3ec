"""Assertions on what was enqueued: what they accept, what they refuse, what they show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import duly.testing
from duly import Duly, State, Task
from duly.errors import UnknownTask, WrongSignature
from duly.testing import WorkingClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

Mail = Task[..., Any, Any]


@pytest.fixture
def mail(app: Duly) -> Mail:
    @app.task(name="mail")
    def mail(to: str, subject: str = "hello", *, copies: int = 0) -> None:
        if to == "nobody":
            raise LookupError(to)

    return mail


def message(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def test_jobs_are_listed_oldest_first_with_their_arguments(mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada")
    mail.using(key="b", queue_name="slow", priority=7, run_after="5m").enqueue("bob", copies=2)

    first, second = clock.enqueued()

    assert (first.task, first.args, first.kwargs, first.state) == ("mail", ("ada",), {}, State.WAITING)
    assert (first.ready_at, first.key, first.queue) == (NOON, None, "default")
    assert (second.args, second.kwargs) == (("bob",), {"copies": 2})
    assert (second.key, second.queue, second.priority) == ("b", "slow", 7)
    assert second.job.id == second.id


def test_the_list_can_be_narrowed(app: Duly, mail: Mail, clock: WorkingClock) -> None:
    @app.task(name="report")
    def report() -> None: ...

    mail.using(key="a").enqueue("ada")
    mail.enqueue("nobody")
    report.enqueue()
    clock.run_due()

    assert [entry.task for entry in clock.enqueued(report)] == ["report"]
    assert [entry.task for entry in clock.enqueued("report")] == ["report"]
    assert [entry.args for entry in clock.enqueued(key="a")] == [("ada",)]
    assert [entry.args for entry in clock.enqueued(state="failed")] == [("nobody",)]
    assert [entry.args for entry in clock.enqueued(mail, state=State.DONE)] == [("ada",)]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        (("ada", "hi"), {}),
        (("ada", "hi"), {"copies": 2}),
        ((), {"copies": 2}),
        ((), {"to": "ada"}),
        ((), {"to": "ada", "subject": "hi", "copies": 2}),
    ],
)
def test_such_a_call_is_found(args: Any, kwargs: Any, mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada", "hi", copies=2)

    clock.assert_enqueued(mail, *args, **kwargs)
    clock.assert_enqueued("mail", *args, **kwargs)
    assert clock.count_enqueued(mail, *args, **kwargs) == 1


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("bob", "hi"), {}),
        (("ada",), {}),
        (("ada", "hi", "more"), {}),
        (("ada", "hi"), {"copies": 3}),
        ((), {"to": "bob"}),
        ((), {"subject": "hello"}),
    ],
)
def test_another_call_is_not(args: Any, kwargs: Any, mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada", "hi", copies=2)

    clock.assert_not_enqueued(mail, *args, **kwargs)
    message(clock.assert_enqueued, mail, *args, **kwargs)


def test_a_default_is_part_of_the_call(mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada")

    clock.assert_enqueued(mail, subject="hello", copies=0)


def test_the_newest_match_is_returned(mail: Mail, clock: WorkingClock) -> None:
    mail.using(priority=1).enqueue("ada")
    mail.using(priority=2).enqueue("ada")

    assert clock.assert_enqueued(mail, "ada").priority == 2


def test_a_misspelt_keyword_is_an_error_of_the_test(mail: Mail, clock: WorkingClock) -> None:
    with pytest.raises(WrongSignature, match="copys"):
        clock.assert_not_enqueued(mail, copys=2)


def test_an_unknown_task_name_is_an_error_of_the_test(mail: Mail, clock: WorkingClock) -> None:
    with pytest.raises(UnknownTask, match="mail"):
        clock.assert_not_enqueued("mial")


def test_free_keywords_are_compared_too(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def track(event: str, **details: str) -> None: ...

    track.enqueue("click", page="home")

    clock.assert_enqueued(track, page="home")
    clock.assert_not_enqueued(track, page="cart")
    clock.assert_not_enqueued(track, colour="red")


def test_a_failed_assertion_shows_what_was_enqueued(mail: Mail, clock: WorkingClock) -> None:
    mail.using(key="a", run_after="5m").enqueue("ada", copies=2)
    mail.enqueue("bob")
    clock.run_due()

    assert message(clock.assert_enqueued, mail, "eve") == (
        "mail('eve') was not enqueued.\n"
        "Enqueued were:\n"
        "  mail('ada', copies=2) key='a' [waiting, due 2026-03-02T12:05:00+00:00]\n"
        "  mail('bob') [done]"
    )


def test_a_failed_assertion_says_when_there_was_nothing(mail: Mail, clock: WorkingClock) -> None:
    assert message(clock.assert_enqueued, mail) == "mail(…) was not enqueued.\nNothing was enqueued."


def test_a_long_list_is_cut_off(mail: Mail, clock: WorkingClock) -> None:
    for number in range(25):
        mail.enqueue(str(number))

    assert message(clock.assert_enqueued, mail, "x").endswith(
        "mail('19') [waiting, due 2026-03-02T12:00:00+00:00]\n  … and 5 more"
    )


def test_what_should_not_be_there_is_shown(mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada")
    mail.enqueue("bob")

    shown = message(clock.assert_not_enqueued, mail, "bob")

    assert shown.startswith("mail('bob') was enqueued.\nIt is:\n  mail('bob')")
    assert "ada" not in shown


def test_counts(mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada")
    mail.enqueue("ada")
    mail.enqueue("bob")

    clock.assert_enqueued_times(2, mail, "ada")
    clock.assert_enqueued_times(0, mail, "eve")
    assert clock.count_enqueued(mail) == 3
    assert "was enqueued 2 times, not 1" in message(clock.assert_enqueued_times, 1, mail, "ada")


def test_a_suppressed_duplicate_is_not_a_second_job(mail: Mail, clock: WorkingClock) -> None:
    for _ in range(3):
        mail.using(key="ada", unique_for="2m").enqueue("ada")

    clock.assert_enqueued_times(1, mail)


def test_nothing_waiting(mail: Mail, clock: WorkingClock) -> None:
    clock.assert_nothing_waiting()
    mail.using(key="a").enqueue("ada")

    assert "Not everything is finished.\nLeft are:\n  mail('ada')" in message(clock.assert_nothing_waiting)
    assert "mail('ada')" in message(clock.assert_nothing_waiting, mail, key="a")
    clock.assert_nothing_waiting(key="b")
    clock.run_due()
    clock.assert_nothing_waiting()


def test_a_job_whose_worker_died_is_not_finished(mail: Mail, clock: WorkingClock) -> None:
    mail.enqueue("ada")
    with clock.crash_at("after_body"):
        clock.run_due()

    assert "[running]" in message(clock.assert_nothing_waiting)


def test_what_the_engine_seeds_by_itself_was_not_enqueued(app: Duly) -> None:
    @app.perpetual(every="5m", automatic=True)
    def poll() -> None: ...

    @app.schedule(every="1h")
    @app.task
    def report() -> None: ...

    with duly.testing.virtual(app) as clock:
        clock.run_due()
        assert clock.enqueued() == []
        clock.assert_nothing_waiting()

        poll.enqueue()
        clock.assert_enqueued(poll)


def test_ticks_are_jobs_like_others(app: Duly, clock: WorkingClock) -> None:
    @app.schedule(every="1h")
    @app.task
    def report() -> None: ...

    clock.run_until("2h")

    assert [entry.tick for entry in clock.enqueued(report)] == [ran.at for ran in clock.runs]
