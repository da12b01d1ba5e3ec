"""Bodies that take turns on one task of the loop, and what makes one of them keep it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.worker.arrange import no_renewal

from duly import Duly
from duly.lifecycle import Release, error_of
from duly.stores.contract import Ask, Lane
from duly.worker.bench import Bench
from duly.worker.endings import DONE, Concluded
from duly.worker.hand import Halt, Holding
from duly.worker.transaction import Counter

SLOTS = 8

seen: ContextVar[str] = ContextVar("seen", default="nothing")


class Row:
    """A bench whose bodies are what a test gives it; they start in one round of the loop."""

    def __init__(self, slots: int = SLOTS) -> None:
        self.app = Duly("memory://")
        self.bodies = list[Callable[[], Awaitable[None]]]()
        self.ends = list[Concluded]()
        self.holdings = list[Holding]()
        self.failures = list[BaseException]()
        self.bench = Bench(
            slots=slots,
            loop=asyncio.get_running_loop(),
            trusts_lease=lambda: True,
            wake=lambda: self.ends.extend(self.bench.collect()),
            tell=lambda _holding, _signal: None,
            fail=self.failures.append,
            counter=Counter(self.app, "w1", renewal=no_renewal),
        )

        @self.app.task(name="act")
        async def act(number: int) -> None:
            await self.bodies[number]()

        self.act = act

    def begin(self, *bodies: Callable[[], Awaitable[None]]) -> None:
        """All at once, in their order."""
        first, self.bodies = len(self.bodies), [*self.bodies, *bodies]
        for number in range(first, len(self.bodies)):
            self.act.enqueue(number)
        ask = Ask("w1", {"act": Lane("act")}, timedelta(minutes=1), limit=len(bodies), free=len(bodies))
        claims = self.app.store.run(self.app.store.claim(ask)).claims
        holdings = [Holding(claim, self.app.tasks["act"], self.bench) for claim in claims]
        self.holdings.extend(holdings)
        self.bench.keep(holdings)
        self.bench.advance()

    async def until_ended(self, count: int) -> None:
        """However many rounds that takes."""
        async with asyncio.timeout(10):
            while len(self.ends) < count:
                await asyncio.sleep(0)

    async def run(self, *bodies: Callable[[], Awaitable[None]]) -> None:
        """All of them, to their ends."""
        self.begin(*bodies)
        await self.until_ended(len(self.bodies))

    @property
    def verdicts(self) -> list[Any]:
        """In the order in which the bodies were given."""
        by_holding = {id(end.holding): end.verdict for end in self.ends}
        return [by_holding.get(id(holding)) for holding in self.holdings]


@pytest.fixture
async def row() -> AsyncIterator[Row]:
    row = Row()
    yield row
    assert row.failures == []
    row.bench.close(timedelta(0))
    row.app.close()


def _mine() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


class Notes:
    """On which task each body ran, without keeping hold of it."""

    def __init__(self) -> None:
        self.names = list[str]()

    async def plain(self) -> None:
        self.names.append(_mine().get_name())


async def test_bodies_that_never_wait_share_a_task(row: Row) -> None:
    notes = Notes()

    await row.run(notes.plain, notes.plain, notes.plain)

    assert len(notes.names) == 3
    assert len(set(notes.names)) == 1
    assert row.verdicts == [DONE] * 3


async def test_a_body_that_waits_keeps_its_task_to_its_end(row: Row) -> None:
    notes, names = Notes(), list[str]()

    async def patient() -> None:
        names.append(_mine().get_name())
        await asyncio.sleep(0)
        names.append(_mine().get_name())

    await row.run(patient, notes.plain, patient, notes.plain)

    first, second = names[0], next(name for name in names if name != names[0])
    assert sorted(names) == sorted([first, first, second, second])
    assert not {first, second} & set(notes.names[1:])
    assert row.verdicts == [DONE] * 4


async def test_a_body_that_is_remembered_by_its_task_is_not_mistaken_for_another(row: Row) -> None:
    kept, notes = list[asyncio.Task[Any]](), Notes()

    async def leaves_itself_behind() -> None:
        kept.append(_mine())

    async def patient() -> None:
        await asyncio.sleep(0)
        for task in kept:
            task.cancel()  # of one that has ended long ago
        await asyncio.sleep(0)

    await row.run(leaves_itself_behind, patient, notes.plain)

    assert row.verdicts == [DONE] * 3
    assert notes.names != [kept[0].get_name()]


async def test_a_later_cancel_of_a_body_that_has_ended_strikes_nobody(row: Row) -> None:
    release = asyncio.Event()

    async def sets_an_alarm() -> None:
        asyncio.get_running_loop().call_soon(_mine().cancel)

    async def patient() -> None:
        await release.wait()

    row.begin(sets_an_alarm, patient, patient)
    await row.until_ended(1)
    for _ in range(5):
        await asyncio.sleep(0)
    release.set()
    await row.until_ended(3)

    assert row.verdicts == [DONE] * 3


async def test_what_is_filed_under_a_task_is_not_found_by_the_next_body(row: Row) -> None:
    """As libraries do that keep a state for each task."""
    states, found = weakref.WeakKeyDictionary[asyncio.Task[Any], str](), list[str | None]()

    async def files() -> None:
        found.append(states.get(_mine()))
        states[_mine()] = "mine"

    await row.run(files, files, files)

    assert found == [None, None, None]


async def test_a_name_stays_with_the_body_that_gave_it(row: Row) -> None:
    notes = Notes()

    async def names_itself() -> None:
        _mine().set_name("the first")

    await row.run(names_itself, notes.plain)

    assert "the first" not in notes.names


@pytest.mark.parametrize("takes_back", [False, True])
async def test_a_body_that_cancels_itself_and_returns_harms_only_its_own_task(
    row: Row, takes_back: bool
) -> None:
    async def cancels_itself() -> None:
        _mine().cancel()
        if takes_back:
            _mine().uncancel()

    async def patient() -> None:
        await asyncio.sleep(0)

    await row.run(cancels_itself, patient, patient)

    assert row.verdicts == [DONE] * 3


async def test_each_body_has_variables_of_its_own(row: Row) -> None:
    found = list[str]()

    async def quick() -> None:
        found.append(seen.get())
        seen.set("by the quick one")

    async def patient() -> None:
        found.append(seen.get())
        seen.set("by the patient one")
        await asyncio.sleep(0)
        found.append(seen.get())
        await asyncio.create_task(asyncio.sleep(0))
        found.append(seen.get())

    await row.run(quick, patient, quick)

    assert sorted(found) == ["by the patient one"] * 2 + ["nothing"] * 3


async def test_bodies_that_wait_for_each_other_all_begin() -> None:
    row, here = Row(slots=50), asyncio.Semaphore(0)

    async def meets() -> None:
        here.release()
        while here._value < 50:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0)

    await row.run(*[meets] * 50)

    assert row.verdicts == [DONE] * 50


async def test_what_waits_is_begun_though_everything_on_the_loop_was_cancelled(row: Row) -> None:
    """The task that was to begin it went with the others."""
    began = list[int]()

    async def quick() -> None:
        began.append(1)

    row.begin(quick, quick)
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {_mine()}:
        assert task.cancel()
    await row.until_ended(2)

    assert began == [1, 1]


async def test_an_order_strikes_a_body_once_it_waits(row: Row) -> None:
    struck = list[str]()

    async def is_told_while_at_work() -> None:
        row.holdings[0].order(Halt.HANDED_BACK)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            struck.append("once")
            await asyncio.sleep(0)  # a second cancel would end this
            struck.append("and no more")
            raise

    async def patient() -> None:
        await asyncio.sleep(0)

    await row.run(is_told_while_at_work, patient)

    assert struck == ["once", "and no more"]
    assert [type(verdict) for verdict in row.verdicts] == [Release, type(DONE)]


async def test_an_order_that_comes_too_late_strikes_nobody(row: Row) -> None:
    release = asyncio.Event()

    async def is_told_and_returns() -> None:
        row.holdings[0].order(Halt.HANDED_BACK)

    async def patient() -> None:
        await release.wait()

    row.begin(is_told_and_returns, patient)
    await row.until_ended(1)
    for _ in range(5):
        await asyncio.sleep(0)
    release.set()
    await row.until_ended(2)

    assert row.verdicts == [DONE, DONE]


async def test_an_error_after_a_caught_cancel_was_not_caused_by_it(row: Row) -> None:
    async def fails() -> None:
        try:
            _mine().cancel()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            _mine().uncancel()
        raise ValueError("on its own account")

    await row.run(fails)

    cause = row.ends[0].cause
    assert isinstance(cause, ValueError)
    assert cause.__context__ is None


async def test_who_is_to_be_called_at_the_end_of_a_body_is_not_called_at_the_end_of_another(row: Row) -> None:
    release, calls = asyncio.Event(), list[str]()

    async def asks_for_a_call() -> None:
        _mine().add_done_callback(lambda _: calls.append("it is over"))

    async def patient() -> None:
        await release.wait()

    row.begin(asks_for_a_call, patient)
    for _ in range(5):
        await asyncio.sleep(0)

    assert calls == ["it is over"]
    release.set()
    await row.until_ended(2)


async def test_a_stored_error_shows_nothing_of_us_amid_what_the_body_waited_for(row: Row) -> None:
    async def breaks() -> None:
        raise KeyError("in a task")

    async def waits_for_it() -> None:
        await asyncio.create_task(breaks())

    async def waits_too_long() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    await row.run(waits_for_it, waits_too_long)

    for verdict in row.verdicts:
        error = error_of(verdict)
        assert error is not None
        assert "/shift.py" not in error


async def test_what_ended_a_body_waits_for_no_gc(row: Row) -> None:
    class Gone(Exception):
        """Nothing else could be asked whether it is still there: a builtin one takes no weak reference."""

    remembered = list[weakref.ref[Gone]]()

    async def breaks() -> None:
        error = Gone()
        remembered.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    async def waits_for_it() -> None:
        await asyncio.create_task(breaks())

    gc.disable()
    try:
        await row.run(waits_for_it)
        await asyncio.sleep(0)
        row.ends.clear()
        assert remembered[0]() is None
    finally:
        gc.enable()


async def test_what_a_body_has_waited_for_is_let_go_of_when_it_goes_on(row: Row) -> None:
    is_alive = list[bool]()

    async def waits_twice() -> None:
        future = asyncio.get_running_loop().create_future()
        remembered = weakref.ref(future)
        asyncio.get_running_loop().call_soon(future.set_result, None)
        await future
        del future
        await asyncio.sleep(0)
        is_alive.append(remembered() is not None)

    await row.run(waits_twice)

    assert is_alive == [False]


async def test_what_comes_while_bodies_take_turns_leaves_the_loop_to_others_first(row: Row) -> None:
    """As when another thread claims as fast as these end."""
    began = list[str]()

    async def calls_for_the_next() -> None:
        began.append("a body")
        if len(began) == 1:
            asyncio.get_running_loop().call_soon(began.append, "somebody else")
        if len(row.bodies) < 4:
            row.bench._end(Concluded(row.holdings[0], DONE))  # pyright: ignore[reportPrivateUsage]
            row.begin(calls_for_the_next)

    row.begin(calls_for_the_next)
    for _ in range(10):
        await asyncio.sleep(0)

    assert began[:3] == ["a body", "somebody else", "a body"]
    assert began.count("a body") == 4


def test_a_body_that_would_not_hear_of_the_end_of_its_loop_has_not_returned() -> None:
    async def will_not_hear() -> None:
        with suppress(GeneratorExit):
            await asyncio.get_running_loop().create_future()

    async def begin() -> Row:
        row = Row()
        row.begin(will_not_hear)
        for _ in range(5):
            await asyncio.sleep(0)
        return row

    loop = asyncio.new_event_loop()
    row = loop.run_until_complete(begin())
    task = row.holdings[0].body
    assert task is not None
    coroutine = task.get_coro()
    assert coroutine is not None
    pending: Any = task
    pending._log_destroy_pending = False  # it is meant to be
    loop.close()
    coroutine.close()
    row.ends.extend(row.bench.collect())

    assert row.failures == []
    assert [type(verdict) for verdict in row.verdicts] == [Release]
    row.bench.close(timedelta(0))
    row.app.close()


async def test_a_task_factory_that_makes_no_task_is_heard_of() -> None:
    """The loop would only log it, and what waits would wait for ever."""
    row, loop = Row(), asyncio.get_running_loop()

    def refuses(_loop: object, coroutine: Any, **_options: object) -> Any:
        coroutine.close()
        raise TypeError("no task for you")

    async def quick() -> None:
        raise AssertionError("nobody could begin it")

    row.begin(quick)
    loop.set_task_factory(refuses)
    try:
        for _ in range(3):
            await asyncio.sleep(0)
    finally:
        loop.set_task_factory(None)

    assert [type(failure) for failure in row.failures] == [TypeError]
    row.bench.close(timedelta(0))
    row.app.close()
