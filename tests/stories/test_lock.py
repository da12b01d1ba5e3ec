"""`app.lock`: one holder at a time, a token that only rises, and no silent loss."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from tests.stories.arrange import OpenApp, run_all, until

from duly import Duly, LockLost, LockTaken, StoreUnavailable
from duly.errors import DefinitionError
from duly.stores.contract import Grip
from duly.stores.drive import Operation
from duly.testing import VirtualClock


def test_two_holders_never_overlap(open_app: OpenApp) -> None:
    apps = [open_app(), open_app()]
    running, most, tokens = 0, 0, list[int]()
    guard = threading.Lock()

    def work(app: Duly) -> None:
        nonlocal running, most
        for _ in range(5):
            with app.lock("account:7", wait="60s") as lock:
                with guard:
                    running += 1
                    most = max(most, running)
                    tokens.append(lock.token)
                time.sleep(0.002)
                with guard:
                    running -= 1

    threads = [threading.Thread(target=work, args=(apps[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (most, len(tokens)) == (1, 20)
    assert tokens == sorted(set(tokens))  # each holder's token is larger than all before


def test_one_lock_object_serves_many_threads_one_at_a_time(app: Duly) -> None:
    lock = app.lock("account:7", ttl="60s", wait="60s")
    running, most = 0, 0

    def work() -> None:
        nonlocal running, most
        for _ in range(5):
            with lock as held:
                running += 1
                most = max(most, running)
                assert lock.token == held.token
                held.check()
                running -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1


def test_a_lock_that_is_held_elsewhere_is_waited_for_only_so_long(app: Duly) -> None:
    with app.lock("account:7"):
        began = time.monotonic()
        with pytest.raises(LockTaken, match="account:7"), app.lock("account:7", wait="100ms"):
            pass
        took = time.monotonic() - began
        with pytest.raises(TimeoutError), app.lock("account:7", wait=0):
            pass

    assert took >= 0.1
    with app.lock("account:7", wait=0):
        pass


def test_locks_of_other_names_are_free(app: Duly) -> None:
    with app.lock("account:7"), app.lock("account:8", wait=0):
        pass


async def test_the_async_lock_does_the_same(app: Duly) -> None:
    order: list[str] = []
    is_held = asyncio.Event()

    async def hold(word: str, seconds: float) -> None:
        async with app.lock("account:7", wait="60s") as lock:
            order.append(f"{word} in")
            is_held.set()
            await asyncio.sleep(seconds)
            lock.check()
            order.append(f"{word} out")

    first = asyncio.create_task(hold("a", 0.05))
    await is_held.wait()
    await asyncio.gather(first, hold("b", 0))

    assert order == ["a in", "a out", "b in", "b out"]


def test_a_lock_is_renewed_while_it_is_held(
    timed_app: Duly, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_grip, renewals = timed_app.store.keep_grip, list[Grip]()

    def count(grip: Grip, ttl: timedelta) -> Operation[bool]:
        renewals.append(grip)
        return keep_grip(grip, ttl)

    monkeypatch.setattr("duly.lock.RENEWALS_PER_TTL", 600)
    monkeypatch.setattr(timed_app.store, "keep_grip", count)

    with timed_app.lock("account:7", ttl="60s") as lock:
        for _ in range(2):  # longer than the ttl: only renewals can keep it
            clock.advance("50s")
            renewals.clear()
            until(lambda: len(renewals) > 1)  # so that one has ended
        lock.check()
        with pytest.raises(LockTaken), timed_app.lock("account:7", wait=0):
            pass


def test_a_lock_that_ran_out_is_free_for_the_next_and_its_holder_is_told(
    timed_app: Duly, clock: VirtualClock
) -> None:
    tokens: list[int] = []

    def hold_too_long() -> None:
        with timed_app.lock("account:7", ttl="300ms") as old:
            clock.advance("1m")  # as if this process had been frozen so long
            with timed_app.lock("account:7", wait=0, ttl="1h") as new:
                tokens.extend([old.token, new.token])
                with pytest.raises(LockLost):
                    until(old.check)

    with pytest.raises(LockLost, match="account:7"):
        hold_too_long()

    assert tokens[0] < tokens[1]


def test_a_late_holder_does_not_let_go_of_its_successors_lock(timed_app: Duly, clock: VirtualClock) -> None:
    late = timed_app.lock("account:7", ttl="1h")
    late.__enter__()
    clock.advance("2h")
    with timed_app.lock("account:7", wait=0, ttl="1h"):
        with pytest.raises(LockLost):
            late.__exit__(None, None, None)
        with pytest.raises(LockTaken), timed_app.lock("account:7", wait=0):
            pass


def test_the_error_of_the_block_goes_before_the_loss_of_the_lock(
    timed_app: Duly, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_too_late() -> None:
        with timed_app.lock("account:7", ttl="1h"):
            clock.advance("2h")
            with timed_app.lock("account:7", wait=0):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_too_late()

    assert "was lost while it was held" in caplog.text


def test_an_outage_longer_than_the_ttl_is_a_lost_lock(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise StoreUnavailable("the network is down")

    def hold_during_the_outage() -> None:
        with monkeypatch.context() as patched, app.lock("account:7", ttl="200ms") as lock:
            patched.setattr(type(app.store), "run", fail)
            lock.check()
            with pytest.raises(LockLost):
                until(lock.check)

    with pytest.raises(LockLost):
        hold_during_the_outage()


def test_letting_go_during_an_outage_is_no_error_of_the_block(
    app: Duly, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise StoreUnavailable("the network is down")

    with monkeypatch.context() as patched, app.lock("account:7", ttl="1h"):
        patched.setattr(type(app.store), "run", fail)

    assert "its ttl must run out" in caplog.text


def test_a_token_is_only_for_the_one_who_holds_the_lock(app: Duly) -> None:
    lock = app.lock("account:7")

    with pytest.raises(LockLost):
        _ = lock.token


@pytest.mark.parametrize(
    "words", [{"name": ""}, {"ttl": 0}, {"ttl": -1}, {"wait": "soon"}, {"wait": float("nan")}], ids=str
)
def test_a_lock_that_cannot_be_is_refused(app: Duly, words: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        app.lock(**{"name": "account:7", **words})


def test_tasks_share_the_lock_of_the_application(app: Duly) -> None:
    running, most = 0, 0

    @app.task
    def work() -> None:
        nonlocal running, most
        with app.lock("account:7", wait="60s"):
            running += 1
            most = max(most, running)
            time.sleep(0.005)
            running -= 1

    work.enqueue_many([((), {}) for _ in range(8)])
    run_all(app)

    assert most == 1
    assert app.jobs.count(state="done") == 8
