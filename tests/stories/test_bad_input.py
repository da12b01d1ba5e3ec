"""What bad input gets: a clear error that names the value and the remedy, early, and nothing written."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from duly import Duly, Retry, Run
from duly.errors import (
    BadRequest,
    DefinitionError,
    DulyError,
    DuplicateTask,
    StoreUnavailable,
    UnknownStore,
    UnknownTask,
    WrongSignature,
)

NAIVE = datetime(2027, 1, 1)  # noqa: DTZ001


def add(a: int, b: int = 0, *, times: int = 1) -> int:
    return (a + b) * times


def loop_of(run: Run, n: int = 0) -> None:
    pass


# --- at enqueue ---------------------------------------------------------------------------------

endless: list[Any] = []
endless.append(endless)
deep: Any = []
for _ in range(5000):
    deep = [deep]

UNSTORABLE: list[Any] = [*[((1,), {})] * 900, ((object(),), {})]
BAD_CALLS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a missing argument": ("missing", lambda task: task.enqueue()),
    "one argument too many": ("too many", lambda task: task.enqueue(1, 2, 3)),
    "an unknown keyword": ("'c'", lambda task: task.enqueue(1, c=3)),
    "a function": ("cannot be stored", lambda task: task.enqueue(lambda: 1)),
    "a socket": ("args|socket", lambda task: task.enqueue(1, socket.AF_INET, times=socket.socket)),
    "an object deep inside": (r'\["a"\]\[1\]', lambda task: task.enqueue({"a": [1, object()]})),
    "a list that contains itself": ("cannot be stored", lambda task: task.enqueue(endless)),
    "5,000 levels": ("cannot be stored", lambda task: task.enqueue(deep)),
    "NaN": ("nan", lambda task: task.enqueue(math.nan)),
    "a lone surrogate": ("surrogate", lambda task: task.enqueue("\ud800")),
    "300 kB": ("256,000", lambda task: task.enqueue("x" * 300_000)),
    "a negative delay": ("negative", lambda task: task.using(run_after=-1).enqueue(1)),
    "a delay of NaN": ("finite", lambda task: task.using(run_after=math.nan).enqueue(1)),
    "an endless delay": ("finite", lambda task: task.using(run_after=math.inf).enqueue(1)),
    "a huge delay": ("100 years|range", lambda task: task.using(run_after=10**20).enqueue(1)),
    "a delay without a unit": ("Say the unit", lambda task: task.using(run_after="10").enqueue(1)),
    "a delay of True": ("not a span", lambda task: task.using(run_after=True).enqueue(1)),
    "a naive datetime": ("time zone", lambda task: task.using(run_after=NAIVE).enqueue(1)),
    "the end of time": (
        "1970 to 9998",
        lambda task: task.using(run_after=datetime.max.replace(tzinfo=UTC)).enqueue(1),
    ),
    "the year 1": (
        "1970 to 9998",
        lambda task: task.using(run_after=datetime.min.replace(tzinfo=UTC)).enqueue(1),
    ),
    "an unknown option": ("'colour'", lambda task: task.using(colour="red").enqueue(1)),
    "a priority of 101": ("-100 to 100", lambda task: task.using(priority=101).enqueue(1)),
    "a priority of True": ("whole number", lambda task: task.using(priority=True).enqueue(1)),
    "an empty key": ("1 to 500", lambda task: task.using(key="").enqueue(1)),
    "a long key": ("1 to 500", lambda task: task.using(key="k" * 501).enqueue(1)),
    "a key with NUL": ("NUL", lambda task: task.using(key="a\x00b").enqueue(1)),
    "a numeric key": ("42", lambda task: task.using(key=42).enqueue(1)),
    "an empty queue": ("queue_name", lambda task: task.using(queue_name="").enqueue(1)),
    "replace without a key": ("key='lease:42'", lambda task: task.using(replace=True).enqueue(1)),
    "unique_for without a key": ("key='lease:42'", lambda task: task.using(unique_for="2m").enqueue(1)),
    "an empty window": ("longer than zero", lambda task: task.using(key="k", unique_for=0).enqueue(1)),
    "trailing without a window": ("unique_for", lambda task: task.using(key="k", trailing=True).enqueue(1)),
    "an unknown overlap": ("'queue_one'", lambda task: task.using(key="k", overlap="mix").enqueue(1)),
    "NUL in a text": ("NUL", lambda task: task.enqueue("a\x00b")),
    "a negative expiry": ("negative", lambda task: task.using(expires=-1).enqueue(1)),
    "a connection to elsewhere": (
        "connection|transaction",
        lambda task: task.using(connection=object()).enqueue(1),
    ),
    "a bad call among good ones": ("missing", lambda task: task.enqueue_many([((1,), {}), ((), {})])),
    "a bad call after many": ("missing", lambda task: task.enqueue_many([*[((1,), {})] * 900, ((), {})])),
    "what cannot be stored after many": ("object", lambda task: task.enqueue_many(UNSTORABLE)),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_gets_a_clear_error_and_nothing_is_written(app: Duly, case: str) -> None:
    complaint, ask = BAD_CALLS[case]
    task = app.task(add)

    with pytest.raises(DulyError, match=complaint):
        ask(task)

    assert app.jobs.count() == 0


def test_a_wrong_call_is_both_a_bad_request_and_a_type_error(app: Duly) -> None:
    task: Any = app.task(name="shop.add")(add)

    with pytest.raises(WrongSignature, match=r"shop\.add") as caught:
        task.enqueue(1, c=3)

    assert isinstance(caught.value, BadRequest)
    assert isinstance(caught.value, TypeError)


# --- at definition ------------------------------------------------------------------------------

BAD_TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown option": ("'colour'", {"colour": "red"}),
    "a number as retry": (r"duly\.Retry", {"retry": 3}),
    "retry where nobody may run twice": (
        "contradict",
        {"retry": Retry(on=OSError), "delivery": "at_most_once"},
    ),
    "an unknown delivery": ("'at_least_once'", {"delivery": "maybe"}),
    "a soft limit beyond the hard one": ("shorter", {"soft_limit": "2m", "hard_limit": "1m"}),
    "no time at all": ("longer than zero", {"hard_limit": 0}),
    "an unknown executor": ("'process'", {"executor": "gpu"}),
    "a rate nobody can read": ("'10/m'", {"rate": "often"}),
    "a rate of nothing": ("'10/m'", {"rate": "0/m"}),
    "half a slot": ("at least 1", {"concurrency": 0.5}),
    "no slot per key": ("at least 1", {"concurrency_per_key": 0}),
    "trailing without a window": ("unique_for", {"trailing": True}),
    "an empty name": ("name", {"name": "\n"}),
    "an unknown overlap": ("'queue_one'", {"overlap": "mix"}),
    "an overlap that is for ticks": ("missed='all'", {"overlap": "queue_all"}),
    "a hook that is a word": ("'stop' is for @app.perpetual", {"on_failure": "stop"}),
}


@pytest.mark.parametrize("case", BAD_TASKS)
def test_a_task_that_cannot_work_is_refused_where_it_is_written(app: Duly, case: str) -> None:
    complaint, options = BAD_TASKS[case]

    with pytest.raises(DefinitionError, match=complaint):
        app.task(**options)(add)

    assert app.tasks == {}


BAD_SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "a month of 32 days": ("32", {"cron": "0 0 32 * *"}),
    "a date that never comes": ("30", {"cron": "0 0 30 2 *"}),
    "four fields": ("fields", {"cron": "0 0 1 *"}),
    "words": ("soon", {"cron": "soon"}),
    "an unknown zone": ("Mars/Olympus", {"cron": "0 2 * * *", "timezone": "Mars/Olympus"}),
    "both cron and every": ("not both", {"cron": "0 2 * * *", "every": "5m"}),
    "neither cron nor every": ("either", {}),
    "a step of zero": ("longer than zero", {"every": 0}),
    "a negative step": ("negative", {"every": -5}),
    "an unknown policy": ("'last', 'skip' or 'all'", {"every": "5m", "missed": "maybe"}),
    "a naive start": ("time zone", {"every": "5m", "start": NAIVE}),
    "an end before the start": (
        "before it starts",
        {"every": "5m", "start": datetime(2027, 1, 2, tzinfo=UTC), "end": datetime(2027, 1, 1, tzinfo=UTC)},
    ),
    "nothing to catch up": ("at least 1", {"every": "5m", "max_catch_up": 0}),
    "an unknown overlap": ("queue_one", {"every": "5m", "overlap": "mix"}),
    "an unknown mode": ("rate", {"every": "5m", "mode": "sometimes"}),
    "an unknown term": ("'colour'", {"every": "5m", "colour": "red"}),
    "arguments that do not fit": ("cannot be called like that", {"every": "5m", "args": (1, 2, 3)}),
    "arguments that cannot be stored": ("cannot be stored", {"every": "5m", "args": (object(),)}),
}


@pytest.mark.parametrize("case", BAD_SCHEDULES)
def test_a_schedule_that_cannot_tick_is_refused_where_it_is_written(app: Duly, case: str) -> None:
    complaint, options = BAD_SCHEDULES[case]
    task = app.task(add)
    terms: dict[str, Any] = {"args": (1,), **options}

    with pytest.raises(DulyError, match=complaint):
        app.schedule(**terms)(task)

    assert app.schedule_terms == {}


def test_a_schedule_must_give_the_arguments_its_task_needs(app: Duly) -> None:
    task = app.task(add)

    with pytest.raises(WrongSignature, match="missing"):
        app.schedule(every="5m")(task)


def test_a_schedule_goes_above_its_task(app: Duly) -> None:
    decorate: Any = app.schedule(every="5m")

    with pytest.raises(DefinitionError, match=r"goes above @app\.task"):
        decorate(add)


def test_two_functions_cannot_share_a_name(app: Duly) -> None:
    app.task(name="send")(add)

    with pytest.raises(DuplicateTask, match="'send'"):
        app.task(name="send")(loop_of)


def test_two_schedules_cannot_share_a_name(app: Duly) -> None:
    task = app.task(loop_of)
    app.schedule(every="5m")(task)

    with pytest.raises(DefinitionError, match="Give one of them name="):
        app.schedule(every="6m")(task)


def test_a_perpetual_that_starts_by_itself_cannot_need_arguments(app: Duly) -> None:
    with pytest.raises(DefinitionError, match="automatic"):
        app.perpetual(every="5m", automatic=True)(add)

    app.perpetual(every="5m", automatic=True)(loop_of)


def test_a_perpetual_with_a_bad_step_is_refused(app: Duly) -> None:
    with pytest.raises(DefinitionError, match="every"):
        app.perpetual(every="soon")(loop_of)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"lease": "10ms"}, "lease"),
        ({"lease": "soon"}, "lease"),
        ({"concurrency": 0}, "concurrency"),
        ({"namespace": "a b"}, "namespace"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_an_application_with_a_bad_option_is_refused(words: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        Duly("memory://", **words)


# --- of the application -------------------------------------------------------------------------


def test_an_unknown_store_is_named_with_those_there_are() -> None:
    app = Duly("mongodb://localhost")
    task = app.task(add)

    with pytest.raises(UnknownStore, match=r"mongodb.*sqlite:///"):
        task.enqueue(1)


def test_a_file_that_cannot_be_written_is_told_to_the_caller(tmp_path: Path) -> None:
    app = Duly(f"sqlite:///{tmp_path}/nowhere/duly.db")
    task = app.task(add)

    with pytest.raises(StoreUnavailable, match="nowhere"):
        task.enqueue(1)


def test_an_unknown_task_is_answered_with_the_nearest_one(app: Duly) -> None:
    app.task(name="shop.add")(add)

    with pytest.raises(UnknownTask, match=r"Did you mean 'shop\.add'"):
        app.get_task("shop.ad")


@pytest.mark.parametrize("words", [{}, {"task": "x", "queue": "y"}])
def test_holding_needs_a_task_or_a_queue(app: Duly, words: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="not both"):
        app.pause(**words)


def test_jobs_are_filtered_by_known_words_only(app: Duly) -> None:
    with pytest.raises(TypeError, match="'colour'"):
        app.jobs.list(colour="red")
    with pytest.raises(BadRequest, match=r"'sleeping'.*waiting, running"):
        app.jobs.list(state="sleeping")


@pytest.mark.parametrize("order", ["cancel", "delete", "retry", "postpone"])
def test_an_order_must_say_which_jobs_it_means(app: Duly, order: str) -> None:
    handle = app.task(add).using(run_after="1h").enqueue(1)

    with pytest.raises(BadRequest, match="which jobs"):
        getattr(app.jobs, order)(*[])

    assert app.jobs.get(handle).ready_at == app.jobs.get(handle).due
