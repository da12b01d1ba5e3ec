"""Orders to many that go on without the browser that gave them.

Each works in a thread of its own and is known by its line in the audit, which it rewrites as it goes: whoever
asks, in whatever process, is told how far it is. At the end of the process it stops between two parts and
leaves a line that says so, with the number of jobs it reached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from duly.bulk import Outcome
from duly.jobs import Acted

MOST: Final = 10
"""Threads at a time; of further orders whoever gives them waits for the end."""
KEPT: Final = 20
"""Errands whose refusals can be told one by one; of older ones the audit knows how many."""


class Stopped(Exception):
    """The process ends: the order is cut short."""


class Errand:
    """One order on its way."""

    def __init__(self) -> None:
        self.number: int | None = None
        """Of its line in the audit; None before, and where it has none since nobody was reached."""
        self.outcome = Outcome()
        """So far."""
        self.error: Exception | None = None
        self.is_begun = threading.Event()
        self.is_ended = threading.Event()
        self.is_stopping = threading.Event()

    def begin(self, number: int | None) -> None:
        """It has its line."""
        self.number = number
        self.is_begun.set()

    def note(self, acted: Acted) -> None:
        """One more part of it was done; perhaps the last one."""
        self.outcome.note(acted)
        if self.is_stopping.is_set() or not threading.main_thread().is_alive():
            raise Stopped("The dashboard was stopped before the order had reached all.")

    def stop(self) -> None:
        """Before its next part; waits for that."""
        self.is_stopping.set()
        self.is_ended.wait()

    def result(self) -> Outcome:
        """What it did, once it has ended; what went wrong is raised."""
        self.is_ended.wait()
        if self.error is not None:
            raise self.error
        return self.outcome

    def carry_out(self, work: Work) -> None:
        """In its own thread."""
        try:
            work(self)
        except Exception as error:  # told to who asks
            self.error = error
        finally:
            _under_way.discard(self)
            self.is_ended.set()
            self.is_begun.set()


Work = Callable[[Errand], object]
_under_way: set[Errand] = set()


class Errands:
    """Those of one dashboard, the latest of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Errand] = OrderedDict()

    def send(self, work: Work) -> Errand:
        """Begin; answers once there is a line in the audit, or all is over."""
        errand, is_crowded = Errand(), len(_under_way) >= MOST
        _under_way.add(errand)
        if is_crowded:
            errand.carry_out(work)
        else:
            threading.Thread(target=errand.carry_out, args=(work,), name="duly-order").start()
        errand.is_begun.wait()
        if errand.number is not None:
            self._remember(errand.number, errand)
        return errand

    def find(self, number: int) -> Errand | None:
        """One of this process, if it was not long ago."""
        with self._lock:
            return self._known.get(number)

    def _remember(self, number: int, errand: Errand) -> None:
        with self._lock:
            self._known[number] = errand
            while len(self._known) > KEPT:
                self._known.popitem(last=False)


def under_way() -> list[Errand]:
    """Those of this process that have not ended."""
    return list(_under_way)


def stop_all() -> None:
    """Before stores are closed."""
    for errand in under_way():
        errand.stop()
