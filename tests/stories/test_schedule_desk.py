"""An operator's hand on schedules: pause, resume, trigger, edit, reset; over ticks, restarts and deploys."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.stories.arrange import Gate, OpenApp, ended, run_all, until, working

from duly import Duly, Run, State
from duly.errors import DefinitionError, DulyError, UnknownSchedule, WrongSignature
from duly.schedules import ScheduleView
from duly.testing import VirtualClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Ticking:
    """A scheduled task that notes its ticks, on an application of its own or on a later deploy of it."""

    def __init__(
        self, app: Duly, clock: VirtualClock, *, body: Callable[[], object] | None = None, **terms: Any
    ) -> None:
        self.app = app
        self.clock = clock
        self.ticks: list[datetime] = []
        self.words: list[str] = []

        @app.schedule(name="ticking", **terms)
        @app.task(name="tick", keep_result="1h")
        def tick(run: Run, word: str = "code") -> str:
            assert run.tick is not None
            self.ticks.append(run.tick)
            self.words.append(word)
            if body is not None:
                body()
            return word

        run_all(app)

    def at(self, minute: float) -> None:
        """Work at that many minutes after noon."""
        self.clock.advance(NOON + minute * MINUTE - self.clock.now())
        run_all(self.app)

    def minutes(self) -> list[int]:
        return [(tick - NOON) // MINUTE for tick in self.ticks]

    def view(self) -> ScheduleView:
        [view] = self.app.schedules.list()
        return view


def next_minute(ticking: Ticking) -> float:
    look = ticking.view().next_look
    assert look is not None
    return (look - NOON) / MINUTE


# --- looking ------------------------------------------------------------------------------------


def test_a_schedule_is_listed_with_its_terms_and_its_times(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, every="10m", missed="skip")
    ticking.at(10)

    view = ticking.view()
    assert (view.name, view.task, view.terms["missed"]) == ("ticking", "tick", "skip")
    assert (view.is_paused, view.is_known, dict(view.overlay)) == (False, True, {})
    assert (view.last_tick, view.next_look) == (NOON + 10 * MINUTE, NOON + 20 * MINUTE)


def test_an_unknown_schedule_is_answered_with_the_nearest_one(timed_app: Duly, clock: VirtualClock) -> None:
    Ticking(timed_app, clock, every="10m")

    with pytest.raises(UnknownSchedule, match="Did you mean 'ticking'"):
        timed_app.schedules.pause("tickin")


# --- pause and resume ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missed", "expected"), [("last", [10, 40]), ("skip", [10]), ("all", [10, 20, 30, 40])]
)
def test_a_paused_schedule_puts_no_ticks_and_resuming_applies_the_policy(
    timed_app: Duly, clock: VirtualClock, missed: str, expected: list[int]
) -> None:
    ticking = Ticking(timed_app, clock, every="10m", missed=missed)
    ticking.at(10)

    timed_app.schedules.pause("ticking")
    for minute in (20, 30, 40):
        ticking.at(minute)
    while_paused = (ticking.minutes(), timed_app.jobs.count(task="tick"), ticking.view().is_paused)
    timed_app.schedules.resume("ticking")
    ticking.at(42)

    assert while_paused == ([10], 1, True)
    assert ticking.minutes() == expected
    assert not ticking.view().is_paused


def test_pausing_the_task_holds_its_schedule_too(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, every="10m")

    timed_app.pause(task="tick")
    for minute in (10, 20, 30):
        ticking.at(minute)
    put = timed_app.jobs.count(task="tick")
    timed_app.resume(task="tick")
    ticking.at(31)

    assert (put, ticking.minutes()) == (0, [30])


def test_a_pause_survives_restart_and_deploy(open_app: OpenApp, clock: VirtualClock) -> None:
    old = Ticking(open_app(clock=clock), clock, every="10m")
    old.app.schedules.pause("ticking")

    new = Ticking(open_app(clock=clock), clock, every="5m")
    for minute in (5, 10, 15):
        new.at(minute)

    assert new.ticks == []


def test_a_worker_that_waits_hears_of_the_end_of_a_pause(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, every="10m")
    timed_app.schedules.pause("ticking")

    with working(timed_app):
        clock.advance("10m")
        timed_app.schedules.resume("ticking")
        until(lambda: ticking.minutes() == [10])


# --- trigger ------------------------------------------------------------------------------------


def test_a_trigger_runs_once_now_beside_the_timetable(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, every="10m", jitter="5m")
    ticking.at(3)

    handle = timed_app.schedules.trigger("ticking")
    run_all(timed_app)

    assert handle.result(timeout=0) == "code"
    assert ticking.minutes() == [3]
    assert ticking.view().last_tick == NOON
    assert next_minute(ticking) == 10


def test_a_trigger_follows_the_overlap_rule(timed_app: Duly, clock: VirtualClock) -> None:
    gate = Gate()
    ticking = Ticking(timed_app, clock, every="10m", overlap="skip", body=gate.wait_here)

    with working(timed_app):
        clock.advance("10m")
        gate.reached()
        handle = timed_app.schedules.trigger("ticking")
        gate.open()

    assert (handle.decision, ticking.minutes()) == ("skipped", [10])


# --- edit and reset -----------------------------------------------------------------------------


def test_an_edit_takes_effect_at_once_and_keeps_the_last_tick(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, cron="0 13 * * *")
    ticking.at(2)

    view = timed_app.schedules.edit("ticking", every="10m", args=("operator",))
    for minute in (2, 10, 20):
        ticking.at(minute)

    assert dict(view.overlay)["every"] == "10m"
    assert (view.terms["cron"], view.terms["every"]) == (None, "10m")
    assert (ticking.minutes(), ticking.words) == ([10, 20], ["operator"] * 2)


def test_an_edit_between_two_ticks_neither_loses_nor_doubles_one(
    timed_app: Duly, clock: VirtualClock
) -> None:
    ticking = Ticking(timed_app, clock, every="10m")

    for minute in range(41):
        ticking.at(minute)
        timed_app.schedules.edit("ticking", jitter=0 if minute % 2 else "0s", grace="5m")
        run_all(timed_app)

    assert ticking.minutes() == [10, 20, 30, 40]


def test_an_edit_puts_no_tick_before_its_time(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, every="1h")
    ticking.at(10)

    timed_app.schedules.edit("ticking", grace="5m")
    run_all(timed_app)
    put = timed_app.jobs.count(task="tick")
    timed_app.schedules.pause("ticking")
    ticking.at(60)

    assert (put, ticking.ticks) == (0, [])


def test_edits_at_the_moment_of_a_tick_neither_lose_nor_double_one(open_app: OpenApp) -> None:
    app = open_app()
    seen: list[datetime] = []
    is_over = threading.Event()

    @app.schedule(name="ticking", every="40ms", missed="all", max_catch_up=10_000)
    @app.task(name="tick")
    def tick(run: Run) -> None:
        assert run.tick is not None
        seen.append(run.tick)

    def edit_all_the_time() -> None:
        words = 0
        while not is_over.is_set():
            words += 1
            app.schedules.edit("ticking", args=(), max_catch_up=10_000 + words)

    with working(app), working(app):
        until(lambda: bool(seen))  # nothing can be edited before a worker made it known
        editor = threading.Thread(target=edit_all_the_time)
        editor.start()
        until(lambda: len(seen) >= 12)
        is_over.set()
        editor.join()

    ticks = sorted(seen)
    assert {later - earlier for earlier, later in pairwise(ticks)} == {timedelta(milliseconds=40)}


def test_an_edit_of_a_fixed_delay_does_not_make_it_run_early(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, clock, every="10m", mode="delay", body=lambda: clock.advance("1m"))
    ticking.at(1)
    first = ticking.minutes()
    ticking.at(10)  # it looks, finds that the run ended a minute in, and waits on

    timed_app.schedules.edit("ticking", grace="5m")
    run_all(timed_app)

    assert ticking.minutes() == first
    assert next_minute(ticking) == 11


def test_an_operators_terms_survive_a_deploy_and_reset_brings_the_codes_back(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    old = Ticking(open_app(clock=clock), clock, every="10m")
    old.app.schedules.edit("ticking", every="4m")

    new = Ticking(open_app(clock=clock), clock, every="15m", args=("deployed",))
    in_force = new.view()
    for minute in (4, 8):
        new.at(minute)
    new.app.schedules.reset("ticking")
    for minute in (9, 12, 15, 16):
        new.at(minute)

    assert (in_force.terms["every"], in_force.terms["task"]) == ("4m", "tick")
    assert (new.minutes(), new.words) == ([4, 8, 15], ["deployed"] * 3)
    assert dict(new.view().overlay) == {}


def test_a_deploy_with_other_terms_takes_effect_without_losing_the_last_tick(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    old = Ticking(open_app(clock=clock), clock, every="10m")
    old.at(10)

    new = Ticking(open_app(clock=clock), clock, every="15m")
    for minute in (10, 11, 15, 30):
        new.at(minute)

    assert (old.minutes(), new.minutes()) == ([10], [15, 30])


def test_two_code_versions_at_once_still_run_each_tick_once(open_app: OpenApp, clock: VirtualClock) -> None:
    # The clock leaps further than an ordinary lease, and would end those of workers that are well.
    old = Ticking(open_app(clock=clock, lease="1d"), clock, every="10m")
    new = Ticking(open_app(clock=clock, lease="1d"), clock, every="5m")

    with working(old.app), working(new.app):
        for minute in range(5, 31, 5):
            clock.advance(NOON + minute * MINUTE - clock.now())
            until(lambda: (look := new.view().next_look) and look > clock.now())
            until(lambda: new.app.jobs.count(task="tick", state=["waiting", "running"]) == 0)

    ticks = old.ticks + new.ticks
    assert len(set(ticks)) == len(ticks)


BAD_EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "an impossible cron": ("32", {"cron": "0 0 32 * *"}),
    "an unknown zone": ("Mars", {"cron": "0 0 * * *", "timezone": "Mars/Olympus"}),
    "a negative step": ("negative", {"every": -1}),
    "an unknown term": ("'colour' cannot be edited", {"colour": "red"}),
    "another task": ("'task' cannot be edited", {"task": "other"}),
    "arguments that do not fit": ("cannot be called like that", {"args": (1, 2, 3)}),
    "an unknown policy": ("missed", {"missed": "maybe"}),
}


@pytest.mark.parametrize("case", BAD_EDITS)
def test_an_edit_that_cannot_be_is_refused_and_changes_nothing(
    timed_app: Duly, clock: VirtualClock, case: str
) -> None:
    complaint, changes = BAD_EDITS[case]
    ticking = Ticking(timed_app, clock, every="10m")

    with pytest.raises(DulyError, match=complaint) as refusal:
        timed_app.schedules.edit("ticking", **changes)
    ticking.at(10)

    assert isinstance(refusal.value, DefinitionError | WrongSignature)
    assert (dict(ticking.view().overlay), ticking.minutes()) == ({}, [10])


async def test_the_async_twins_do_the_same(timed_app: Duly, clock: VirtualClock) -> None:
    @timed_app.schedule(name="ticking", every="10m")
    @timed_app.task(name="tick")
    async def tick() -> None:
        pass

    async with timed_app.worker():
        while not (views := await timed_app.schedules.alist())[0].next_look:
            pass
        await timed_app.schedules.apause("ticking")
        paused = (await timed_app.schedules.alist())[0].is_paused
        await timed_app.schedules.aresume("ticking")
        edited = await timed_app.schedules.aedit("ticking", every="5m")
        back = await timed_app.schedules.areset("ticking")
        handle = await timed_app.schedules.atrigger("ticking")
        [job] = await timed_app.jobs.await_all([handle], timeout="30s")

    assert (len(views), paused, edited.terms["every"], back.terms["every"]) == (1, True, "5m", "10m")
    assert job.state is State.DONE
    assert ended(timed_app, handle).tick == NOON
