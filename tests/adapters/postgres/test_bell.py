"""Wake-up calls between processes: by NOTIFY, after the commit, a few at most, and never needed."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
from tests.adapters.postgres.arrange import eventually, put, request

from duly.stores.postgres import PostgresStore

LONG = timedelta(seconds=60)


def is_listening(store: PostgresStore) -> bool:
    return store.describe()["bell"] == "listening"


def test_a_ring_reaches_another_process(store: PostgresStore, other: PostgresStore) -> None:
    bell = other.doorbell()
    assert eventually(lambda: is_listening(other))
    bell.wait(timedelta(milliseconds=10))

    store.ring()

    assert bell.wait(LONG)
    bell.close()


def test_a_put_does_not_ring_by_itself_inside_its_transaction(
    store: PostgresStore, other: PostgresStore
) -> None:
    bell = other.doorbell()
    assert eventually(lambda: is_listening(other))
    bell.wait(timedelta(milliseconds=10))

    put(store, request())

    assert not bell.wait(timedelta(milliseconds=300))
    bell.close()


def test_a_thousand_rings_are_a_few_messages(store: PostgresStore, url: str, schema: str) -> None:
    heard = 0
    over = threading.Event()

    def listen(connection: psycopg.Connection) -> None:
        nonlocal heard
        while not over.is_set():
            heard += len(list(connection.notifies(timeout=0.1)))

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'listen "duly_{schema}"'.encode())
        listener = threading.Thread(target=listen, args=(connection,))
        listener.start()
        began = time.monotonic()
        for _ in range(1000):
            store.ring()
            time.sleep(0.0001)
        took = time.monotonic() - began
        assert eventually(lambda: heard > 0)
        time.sleep(0.2)
        over.set()
        listener.join()

    assert 1 <= heard <= took / 0.005 + 2


def test_closing_waits_neither_for_the_listener_nor_for_the_ringer(store: PostgresStore) -> None:
    bell = store.doorbell()
    store.ring()
    assert eventually(lambda: is_listening(store))

    began = time.monotonic()
    store.close()

    assert time.monotonic() - began < 5  # less than it would wait for a thread that does not hear
    assert not is_listening(store)
    bell.close()


def test_a_ring_just_before_closing_is_still_sent(store: PostgresStore, other: PostgresStore) -> None:
    bell = other.doorbell()
    assert eventually(lambda: is_listening(other))
    bell.wait(timedelta(milliseconds=10))

    store.ring()
    store.close()

    assert bell.wait(LONG)
    bell.close()


def test_a_store_that_was_closed_listens_and_rings_again(store: PostgresStore, other: PostgresStore) -> None:
    for one in (store, other):
        one.doorbell()
        one.ring()
        one.close()
    bell = other.doorbell()
    assert eventually(lambda: is_listening(other))
    bell.wait(timedelta(milliseconds=10))

    store.ring()

    assert bell.wait(LONG)
    bell.close()


def test_rings_reach_nobody_and_harm_nobody_when_the_server_cannot_be_had() -> None:
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/nowhere")
    bell = store.doorbell()

    store.ring()

    assert bell.wait(LONG)  # listeners of the same process need no server
    bell.close()
    store.close()
