"""A pool of warm child processes: for bodies that must be killable, or that may kill their process.

Children are started as fresh interpreters (nothing is forked from a process full of threads), on demand, and
kept for the next errand. Only bytes travel; nothing is pickled.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Final

from duly.executors.errands import (
    ChildDied,
    ChildFailed,
    ChildNotStarted,
    Errand,
    HardLimitExceeded,
    PoolClosed,
    Stopped,
    Trip,
)
from duly.executors.frames import MAIN_ALIAS, MAIN_IS_LOADING, pack_hello
from duly.executors.supervisor import Supervisor, Terms

__all__ = [
    "ChildDied",
    "ChildFailed",
    "ChildNotStarted",
    "Children",
    "Errand",
    "HardLimitExceeded",
    "PoolClosed",
    "Stopped",
]

CONFIRMING: Final = timedelta(seconds=60)  # a killed process that is still there then sits in the kernel
LOG = logging.getLogger("duly.executors")


class Children:
    """Up to `size` child processes, each running one errand at a time.

    `search_path` is where a child imports from before its own places; `main_file` is the script that plays
    `__main__` for functions defined there.
    """

    def __init__(
        self,
        size: int,
        *,
        search_path: Sequence[str],
        main_file: str | None,
        idle_after: timedelta = timedelta(minutes=5),
        start_within: timedelta = timedelta(minutes=1),
    ) -> None:
        _refuse_inside_an_unguarded_script()
        places = [os.path.abspath(place) for place in search_path]  # "" means here, wherever the child is
        hello = pack_hello(places, main_file and os.path.abspath(main_file))
        self._size = size
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._trips: dict[Future[bytes], Trip] = {}
        self._failure: BaseException | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._supervisor = Supervisor(Terms(size, hello, idle_after, start_within, self._settled))

    def submit(self, errand: Errand, on_emit: Callable[[bytes], None]) -> Future[bytes]:
        """Run the errand as soon as a child is free.

        `on_emit` and the future's callbacks run in the supervising thread: they must not block.
        """
        trip = Trip(next(self._numbers), errand, on_emit)
        with self._lock:
            self._check_open()
            self._trips[trip.future] = trip
            self._supervise()
            self._supervisor.post(lambda: self._supervisor.take(trip))
        return trip.future

    def stop(self, future: Future[bytes], reason: str, *, grace: timedelta) -> None:
        """Raise LeaseLost in the body, and kill its process if it is not over after the grace.

        A body that ended before it noticed keeps its result.
        """
        with self._lock:
            trip = self._trips.get(future)
        if trip is not None:
            self._supervisor.post(lambda: self._supervisor.stop(trip, reason, grace))

    def close(self, *, grace: timedelta) -> None:
        """Stop all errands, end all children, return when they are dead. Called again, it may hasten that."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is None:
            self._supervisor.discard()
            return
        self._supervisor.post(lambda: self._supervisor.close("the pool was closed", grace))
        thread.join((grace + CONFIRMING).total_seconds())
        if thread.is_alive():
            raise TimeoutError(f"Processes {self.alive} did not end: `ps -o wchan` tells what holds them.")

    @property
    def alive(self) -> list[int]:
        """The process ids of the children that are not known to be dead."""
        return self._supervisor.pids()

    @property
    def free(self) -> int:
        """How many more errands would find a child at once."""
        return max(0, self._size - len(self._trips))

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close(grace=timedelta(0))

    def _check_open(self) -> None:
        if self._failure is not None:
            raise _broken(self._failure)
        if self._is_closed:
            raise PoolClosed("This pool of children was closed. Open a new one.")

    def _supervise(self) -> None:
        """Start the supervising thread, which must also be the one that starts children: they die with it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="duly-children", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._supervisor.run()
        except BaseException as failure:
            LOG.critical("The thread that supervises child processes died.", exc_info=failure)
            self._collapse(failure)

    def _collapse(self, failure: BaseException) -> None:
        with self._lock:
            self._failure = failure
            trips, self._trips = self._trips, {}
        for trip in trips.values():
            try:
                if trip.begin():
                    trip.future.set_exception(_broken(failure))
            except BaseException as another:  # from a callback: the other callers must still hear of it
                LOG.critical("A callback failed too.", exc_info=another)

    def _settled(self, trip: Trip) -> None:
        with self._lock:
            self._trips.pop(trip.future, None)


def _broken(failure: BaseException) -> PoolClosed:
    error = PoolClosed(f"The supervising thread died: {failure!r}.")
    error.__cause__ = failure
    return error


def _refuse_inside_an_unguarded_script() -> None:
    """A child that loads its parent's script must not start children of its own while doing so, and so on."""
    main = sys.modules.get(MAIN_ALIAS)
    if getattr(main, MAIN_IS_LOADING, False):
        raise RuntimeError(
            f"{getattr(main, '__file__', 'The script')!r} starts child processes when it is imported. "
            'Put that call under `if __name__ == "__main__":`.'
        )
