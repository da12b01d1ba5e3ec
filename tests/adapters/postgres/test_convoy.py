"""Requests of several threads in one message: who goes with whom, and who is told what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from tests.adapters.postgres.arrange import eventually, put, request

from duly.bundle import Bundle
from duly.errors import BadRequest, StoreUnavailable
from duly.ids import new_id
from duly.job import Decision, Request
from duly.stores.contract import Placed, Selection
from duly.stores.drive import Operation, Row
from duly.stores.postgres import PostgresStore, convoy
from duly.stores.postgres.convoy import Convoy, Load
from duly.stores.postgres.message import Part
from duly.stores.postgres.wire import Wire

PATTERN = request()
OTHER_PATTERN = request(task="other")


@pytest.fixture(autouse=True)
def all_the_time_in_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody goes alone because the machine is busy."""
    monkeypatch.setattr(convoy, "PATIENCE", 3600.0)


@pytest.fixture(autouse=True)
def one_message_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it is known who waits; tests of two say so."""
    monkeypatch.setattr(convoy, "ABREAST", 1)


@dataclass
class Errand(Operation[list[Placed]]):
    """Some requests on their way."""

    bundle: Bundle = field(kw_only=True)


def errand(bundle: Bundle) -> Operation[list[Placed]]:
    return Errand("put", lambda: pytest.fail("nobody performs it here"), bundle=bundle)


class Road:
    """A store that writes down what is sent to it, and holds the first write up until it is let go."""

    def __init__(self, check: Callable[[Sequence[str]], None] = lambda ids: None) -> None:
        self.sent: list[list[str]] = []
        self.has_set_out = threading.Event()
        self.may_arrive = threading.Event()
        self.convoy = Convoy(self._perform)
        self._check = check

    @property
    def waiting(self) -> int:
        """How many wait for the message under way."""
        return len(getattr(self.convoy, "_waiting"))  # noqa: B009  nobody else asks for it

    def hold_up(self, ids: list[str]) -> None:
        self.sent.append(ids)
        if len(self.sent) == 1:
            self.has_set_out.set()
            assert self.may_arrive.wait(60)

    def _perform(self, errand: Any) -> list[Placed]:
        ids = list(errand.bundle.ids)
        self.hold_up(ids)
        self._check(ids)
        return [Placed(job_id, 1, Decision.CREATED) for job_id in ids]

    def carry(self, name: str, pattern: Request) -> list[Placed]:
        bundle = Bundle(pattern, [name], ["[[],{}]"])
        return self.convoy.carry(errand(bundle), Load(bundle, errand))


class StoreRoad(Road):
    """The same with a real store at its end."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__()
        self._store = store
        self.convoy = getattr(store.driver, "_convoy")  # noqa: B009

    def carry(self, name: str, pattern: Request) -> list[Placed]:
        return self._store.run(self._store.put(Bundle(pattern, [new_id()], ["[[],{}]"])))


class Caller(threading.Thread):
    """A thread with one request."""

    def __init__(self, road: Road, name: str, pattern: Request) -> None:
        super().__init__(daemon=True)
        self._ask: Callable[[], list[Placed]] = partial(road.carry, name, pattern)
        self.answer: Any = None
        self.start()

    def run(self) -> None:
        try:
            ((self.answer, _, _),) = self._ask()
        except BaseException as error:
            self.answer = type(error)


def has_waiting(road: Road, amount: int) -> bool:
    return road.waiting == amount


def crowd(road: Road, *others: tuple[str, Request]) -> list[Any]:
    """What the callers are told: one sets out, the others come while it is under way."""
    callers = [Caller(road, "first", PATTERN)]
    assert road.has_set_out.wait(60)
    for number, (name, pattern) in enumerate(others, 1):
        callers.append(Caller(road, name, pattern))
        assert eventually(partial(has_waiting, road, number))
    road.may_arrive.set()
    for caller in callers:
        caller.join(60)
    return [caller.answer for caller in callers]


def test_whoever_comes_while_a_message_is_under_way_goes_with_the_next() -> None:
    road = Road()

    answers = crowd(road, ("a", PATTERN), ("b", PATTERN), ("c", PATTERN))

    assert answers == ["first", "a", "b", "c"]
    assert road.sent == [["first"], ["a", "b", "c"]]


def test_whoever_finds_two_messages_under_way_goes_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convoy, "ABREAST", 2)
    is_full, ends = threading.Barrier(3), {"first": threading.Event(), "second": threading.Event()}

    def check(ids: Sequence[str]) -> None:
        if ids[0] in ends:
            is_full.wait(60)
            assert ends[ids[0]].wait(60)

    road = Road(check)
    road.may_arrive.set()
    callers = [Caller(road, name, PATTERN) for name in ends]
    is_full.wait(60)
    callers += waiters(road, "abc")

    ends["first"].set()
    for caller in callers[2:]:
        caller.join(60)
    ends["second"].set()
    for caller in callers[:2]:
        caller.join(60)

    assert [caller.answer for caller in callers] == ["first", "second", "a", "b", "c"]
    assert road.sent[2:] == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("ready", "under_way", "crowd", "may"),
    [
        (1, 0, 1, True),  # nobody is in the way
        (1, 0, 40, True),
        (1, 1, 2, True),  # one of two, while the other's message is under way
        (1, 1, 3, False),
        (2, 1, 3, True),
        (2, 1, 5, False),
        (3, 1, 5, True),
        (4, 1, 16, True),  # not half of them, and enough
        (3, 1, 16, False),
        (16, 1, 17, False),  # a large crowd gets more done one message at a time
        (8, 2, 8, False),
    ],
)
def test_half_of_a_small_crowd_sets_out_while_the_other_half_is_away(
    monkeypatch: pytest.MonkeyPatch, ready: int, under_way: int, crowd: float, *, may: bool
) -> None:
    monkeypatch.setattr(convoy, "ABREAST", 2)

    assert convoy.may_set_out(ready, under_way, crowd) is may


def test_a_share_sets_out_beside_a_message_as_soon_as_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight are about; while one of them is away, of those that come next three are enough."""
    monkeypatch.setattr(convoy, "ABREAST", 2)
    monkeypatch.setattr(convoy, "SHARE", 3)
    ends = {name: threading.Event() for name in ("first", "second")}

    def check(ids: Sequence[str]) -> None:
        if ids[0] in ends:
            assert ends[ids[0]].wait(60)

    road = Road(check)
    road.may_arrive.set()
    callers = [Caller(road, "first", PATTERN)]
    assert road.has_set_out.wait(60)
    callers.append(Caller(road, "second", PATTERN))
    assert eventually(lambda: len(road.sent) == 2)
    callers += waiters(road, "abcdef")
    ends["second"].set()
    for caller in callers[1:]:
        caller.join(60)
    late = waiters(road, "gh")
    sent = [*road.sent]
    late.append(Caller(road, "i", PATTERN))
    for caller in late:
        caller.join(60)

    assert sent == [["first"], ["second"], [*"abcdef"]]
    assert [sorted(ids) for ids in road.sent[3:]] == [[*"ghi"]]
    assert callers[0].is_alive()
    ends["first"].set()
    callers[0].join(60)


def waiters(road: Road, names: str) -> list[Caller]:
    """They come one after the other, and each has to wait."""
    callers = list[Caller]()
    for number, name in enumerate(names, 1):
        callers.append(Caller(road, name, PATTERN))
        assert eventually(partial(has_waiting, road, number))
    return callers


def test_requests_of_another_kind_go_by_themselves() -> None:
    road = Road()

    answers = crowd(road, ("a", PATTERN), ("x", OTHER_PATTERN), ("b", PATTERN), ("y", OTHER_PATTERN))

    assert answers == ["first", "a", "x", "b", "y"]
    assert road.sent == [["first"], ["a", "b"], ["x", "y"]]


def test_a_message_has_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convoy, "LIMIT", 2)
    road = Road()

    answers = crowd(road, ("a", PATTERN), ("b", PATTERN), ("c", PATTERN))

    assert answers == ["first", "a", "b", "c"]
    assert road.sent == [["first"], ["a", "b"], ["c"]]


def test_what_is_wrong_with_a_request_is_told_to_its_own_caller() -> None:
    def check(ids: Sequence[str]) -> None:
        if "bad" in ids:
            raise BadRequest("no")

    road = Road(check)

    assert crowd(road, ("a", PATTERN), ("bad", PATTERN), ("c", PATTERN)) == ["first", "a", BadRequest, "c"]
    assert road.sent[1] == ["a", "bad", "c"]
    assert sorted(road.sent[2:]) == [["a"], ["bad"], ["c"]]


def test_that_the_store_is_away_is_told_to_all_of_them_at_once() -> None:
    def check(ids: Sequence[str]) -> None:
        if len(ids) > 1:
            raise StoreUnavailable("gone")

    road = Road(check)

    answers = crowd(road, ("a", PATTERN), ("b", PATTERN))

    assert answers == ["first", StoreUnavailable, StoreUnavailable]
    assert road.sent == [["first"], ["a", "b"]]


def test_nobody_waits_for_a_leader_that_was_interrupted() -> None:
    def check(ids: Sequence[str]) -> None:
        if len(ids) > 1:
            raise KeyboardInterrupt

    road = Road(check)

    answers = crowd(road, ("a", PATTERN), ("b", PATTERN), ("x", OTHER_PATTERN))

    assert answers == ["first", KeyboardInterrupt, "b", "x"]
    assert road.carry("last", PATTERN)[0].id == "last"


@pytest.mark.parametrize(("name", "value"), [("PATIENCE", 0.0), ("ABREAST", 2)])
def test_whoever_has_waited_too_long_or_finds_room_goes_by_itself(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(convoy, name, value)
    road = Road()
    first = Caller(road, "first", PATTERN)
    assert road.has_set_out.wait(60)

    (placed,) = road.carry("a", PATTERN)

    assert placed.id == "a"
    assert first.is_alive()
    road.may_arrive.set()
    first.join(60)
    assert road.sent == [["first"], ["a"]]


def strike_down(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt that comes when a message has arrived, and before it is said that it has."""

    def struck(_: convoy.Lead) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patching:
        patching.setattr(road.convoy, "_hand_on", struck)
        with pytest.raises(KeyboardInterrupt):
            road.carry("struck", PATTERN)


def test_whoever_has_waited_too_long_frees_those_that_come_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    road = Road()
    road.may_arrive.set()
    strike_down(road, monkeypatch)
    monkeypatch.setattr(convoy, "PATIENCE", 0.0)
    second = Caller(road, "second", PATTERN)
    second.join(60)
    monkeypatch.setattr(convoy, "PATIENCE", 3600.0)

    third = Caller(road, "third", PATTERN)
    third.join(60)

    assert [second.answer, third.answer] == ["second", "third"]


def test_messages_that_were_struck_down_are_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take the place of one for the life of the process."""
    monkeypatch.setattr(convoy, "ABREAST", 2)
    monkeypatch.setattr(convoy, "PATIENCE", 0.01)
    road = Road()
    road.may_arrive.set()
    for _ in range(4):
        strike_down(road, monkeypatch)
    callers = list[Caller]()
    for name in ("waits", "does not"):
        callers.append(Caller(road, name, PATTERN))
        callers[-1].join(60)

    assert [caller.answer for caller in callers] == ["waits", "does not"]
    assert getattr(road.convoy, "_leads") == []  # noqa: B009  nobody else asks for it


def test_a_request_made_while_its_own_thread_waits_for_an_answer_waits_for_nobody() -> None:
    within: list[Placed] = []

    def check(ids: Sequence[str]) -> None:
        if ids == ["first"]:  # as a signal does
            within.extend(road.carry("signal", PATTERN))

    road = Road(check)
    road.may_arrive.set()

    road.carry("first", PATTERN)

    assert [placed.id for placed in within] == ["signal"]


def test_a_request_made_while_its_own_thread_hands_on_the_lead_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It took the only one who waited out of the line: an IndexError for a request that was stored."""
    road, decide, within = Road(), convoy.may_set_out, list[Placed]()

    def strike(ready: int, under_way: int, crowd: float) -> bool:  # as a signal does
        if road.may_arrive.is_set() and not within:
            within.extend(road.carry("signal", PATTERN))
        return decide(ready, under_way, crowd)

    monkeypatch.setattr(convoy, "may_set_out", strike)

    answers = crowd(road, ("a", PATTERN))

    assert answers == ["first", "a"]
    assert [placed.id for placed in within] == ["signal"]
    assert road.sent == [["first"], ["signal"], ["a"]]


def test_threads_that_enqueue_at_once_share_a_message(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, PATTERN)
    road, speak = StoreRoad(store), Wire.say

    def slowly(self: Wire, parts: Sequence[Part], *given: Any) -> list[list[Row]]:
        road.hold_up(["a message"])
        return speak(self, parts, *given)

    monkeypatch.setattr(Wire, "say", slowly)

    answers = crowd(road, *[("", PATTERN)] * 7)

    assert len(set(answers)) == 8
    assert len(road.sent) == 2
    assert store.run(store.count(Selection())) == 9


@pytest.mark.parametrize("excess", [0, 1])
def test_a_large_request_goes_by_itself(store: PostgresStore, excess: int) -> None:
    put(store, PATTERN)

    wanted = store.put(Bundle(PATTERN, [new_id()], ["x" * (convoy.LARGEST + excess)]))

    assert (getattr(wanted, "load") is None) == bool(excess)  # noqa: B009  not all operations have one


def test_a_forked_child_waits_for_no_message_of_its_parent(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, PATTERN)
    store.close()  # what the parent has open is not what this is about
    parents = StoreRoad(store).convoy
    monkeypatch.setattr(parents, "_leads", [convoy.Lead()])  # a thread that the child does not have

    store.driver.forget()

    (placed,) = StoreRoad(store).carry("", PATTERN)
    assert placed.decision is Decision.CREATED
