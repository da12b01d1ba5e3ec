"""Programs for test_sqlite_processes.py: each runs in an interpreter of its own.

python -m tests.adapters.sqlite_programs NAME URL ...
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from duly.ids import new_id
from duly.job import Request
from duly.stores.contract import Selection
from duly.stores.sqlite import SqliteStore


def put_one(store: SqliteStore) -> str:
    """One request, acknowledged."""
    placed = store.run(store.put([Request(id=new_id(), task="send", arguments="[[],{}]")]))
    return placed[0].id


def say(word: object) -> None:
    print(word, flush=True)


def open_it(url: str) -> None:
    """Open the file when told to, at the same moment as the others."""
    store = SqliteStore(url)
    say("ready")
    sys.stdin.readline()
    store.open()
    say(put_one(store))
    store.close()


def put(url: str, number: str) -> None:
    """Put jobs one by one and tell the longest wait in seconds."""
    store = SqliteStore(url)
    store.open()
    say("ready")
    sys.stdin.readline()
    worst = 0.0
    for _ in range(int(number)):
        began = time.perf_counter()
        put_one(store)
        worst = max(worst, time.perf_counter() - began)
    store.close()
    say(worst)


def put_forever(url: str) -> None:
    """Put jobs until killed, telling the id of each that was acknowledged."""
    store = SqliteStore(url)
    while True:
        say(put_one(store))


def put_when_told(url: str) -> None:
    """Put a job per line of input and ring."""
    store = SqliteStore(url)
    store.open()
    say("ready")
    for _ in sys.stdin:
        say(put_one(store))
        store.ring()


def listen(url: str) -> None:
    """Tell each ring."""
    store = SqliteStore(url)
    bell = store.doorbell()
    say("ready")
    while True:
        say("rung" if bell.wait(timedelta(seconds=30)) else "silence")


def fork(url: str, children: str) -> None:
    """Fork in the middle of writing threads; parent and children go on writing to one file."""
    store = SqliteStore(url)
    stop = threading.Event()
    written = [0] * 4

    def write(thread: int) -> None:
        while not stop.is_set():
            put_one(store)
            written[thread] += 1

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    pids = [_child(store) for _ in range(int(children))]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    stop.set()
    for thread in threads:
        thread.join()
    put_one(store)
    expected = sum(written) + 1 + 20 * len(pids)
    say(f"{codes} {store.run(store.count(Selection())) - expected}")
    store.close()


def _child(store: SqliteStore) -> int:
    pid = os.fork()
    if pid == 0:
        # A full exit, not os._exit: the interpreter's end must not close the parent's handles either.
        for _ in range(20):
            put_one(store)
        sys.exit(0)
    return pid


def main(name: str, *arguments: str) -> None:
    programs: dict[str, Callable[..., None]] = {
        "open": open_it,
        "put": put,
        "put_forever": put_forever,
        "put_when_told": put_when_told,
        "listen": listen,
        "fork": fork,
    }
    programs[name](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
