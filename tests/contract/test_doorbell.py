"""The doorbell: a ring is heard, also one that falls between two waits; polling stays the truth."""

from __future__ import annotations

import threading
from datetime import timedelta

from duly.stores.contract import Store

LONG = timedelta(seconds=60)
"""Far longer than a ring takes, and shorter than the test's own time limit."""


def test_a_ring_before_the_wait_is_remembered(store: Store) -> None:
    bell = store.doorbell()

    store.ring()

    assert bell.wait(LONG)
    bell.close()


def test_a_ring_ends_a_wait_in_progress(store: Store) -> None:
    bell = store.doorbell()
    heard: list[bool] = []
    listener = threading.Thread(target=lambda: heard.append(bell.wait(LONG)))
    listener.start()

    store.ring()
    listener.join()

    assert heard == [True]
    bell.close()


def test_every_listener_hears_the_ring(store: Store) -> None:
    bells = [store.doorbell(), store.doorbell(), store.doorbell()]

    store.ring()

    assert [bell.wait(LONG) for bell in bells] == [True, True, True]
    for bell in bells:
        bell.close()


def test_a_listener_can_be_woken_alone(store: Store) -> None:
    bell = store.doorbell()

    bell.wake()

    assert bell.wait(LONG)
    bell.close()


def test_a_wait_without_a_ring_comes_back(store: Store) -> None:
    bell = store.doorbell()

    answer = bell.wait(timedelta(milliseconds=1))

    assert isinstance(answer, bool)  # which of the two is open: a bell may ring for nothing
    bell.close()


def test_a_ring_with_nobody_there_is_no_error(store: Store) -> None:
    store.doorbell().close()

    store.ring()

    late = store.doorbell()  # and what nobody heard is no harm to who comes later
    store.ring()
    assert late.wait(LONG)
    late.close()
