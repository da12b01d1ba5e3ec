"""Plain requests of several threads, in one message.

A commit waits for the disk, and eight threads that commit one by one wait eight times; each message costs
the server, and the interpreter that they share, more than a request does. So whoever finds a message under
way waits for its end, and the first of those who waited takes the others along, in one write of many requests
like any other. Eight threads get more than twice as much done. Who is alone waits for nobody, and every call
still returns when its own request is durable.

What a request does wrong is told to its own caller: when a shared write fails, each goes by itself. That may
be done twice, since a request is known by its id.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from duly.bundle import Bundle
from duly.errors import StoreUnavailable
from duly.stores.contract import Placed
from duly.stores.drive import Operation

log = logging.getLogger("duly.postgres")

LIMIT: Final = 64
"""Requests in one message, so that nobody waits for an endless queue to be written."""
LARGEST: Final = 65_536
"""Characters of arguments of a request that goes with others. What the size of one brings about (a server out
of memory or of time, a message it refuses) has nothing to do with the rest, and nobody waits for it."""
PATIENCE: Final = 1.0
"""Seconds after which whoever waits sets out: the connection of the message under way may be dead."""


class Load(NamedTuple):
    """A single plain request, and how to ask for several of its kind."""

    bundle: Bundle
    put: Callable[[Bundle], Operation[list[Placed]]]


class Traveller:
    """One caller and its request."""

    def __init__(self, operation: Operation[list[Placed]], load: Load) -> None:
        self.operation = operation
        self.load = load
        self.leads = False
        self.company: list[Traveller] = []
        """Those it takes along when it leads."""
        self.placed: list[Placed] | None = None
        self.error: StoreUnavailable | None = None
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self) -> bool:
        """Until somebody brings the answer or the lead, and not for long; says whether anybody did."""
        return self._gate.acquire(timeout=PATIENCE)

    def call(self) -> None:
        """End the wait: once for everybody who waits."""
        self._gate.release()


class Convoy:
    """The message under way, and those who wait for the next. A forked child makes its own."""

    def __init__(self, perform: Callable[[Operation[Any]], Any]) -> None:
        self._perform = perform
        self._lock = threading.RLock()  # a signal may strike in here, and its answer be another request
        self._leader: int | None = None
        """The thread whose message is under way."""
        self._waiting: list[Traveller] = []

    def carry(self, operation: Operation[list[Placed]], load: Load) -> list[Placed]:
        """Perform the operation, or have it performed together with others."""
        if self._goes_alone():
            try:
                placed: list[Placed] = self._perform(operation)
                return placed
            finally:
                self._hand_on()
        return self._travel(Traveller(operation, load))

    def _goes_alone(self) -> bool:
        """Whether nothing is under way: then nobody waits either."""
        with self._lock:
            if self._leader is not None:
                return False
            self._leader = threading.get_ident()
            return True

    def _hand_on(self) -> None:
        with self._lock:
            heirs = self._succeeded()
        for each in heirs:
            each.call()

    def _travel(self, traveller: Traveller) -> list[Placed]:
        try:
            if not self._sets_out(traveller) and not traveller.wait():
                self._give_up(traveller)
            return self._lead(traveller) if traveller.leads else self._arrive(traveller)
        finally:
            self._leave(traveller)

    def _sets_out(self, traveller: Traveller) -> bool:
        """Whether it need not wait: nothing is under way, or it would wait for its own thread."""
        here = threading.get_ident()
        with self._lock:
            if self._leader is None:
                self._leader = here
                traveller.leads = True
            elif self._leader != here:
                self._waiting.append(traveller)
                return False
        return True

    def _give_up(self, traveller: Traveller) -> None:
        """Nobody came: lead the others that wait, and those to come need not wait in vain as well.

        Whose message is under way may have been struck down before it could hand on the lead.
        """
        with self._lock:
            if traveller in self._waiting:
                self._waiting.remove(traveller)
                traveller.leads = True

    def _arrive(self, traveller: Traveller) -> list[Placed]:
        """With the answer that somebody brought, or else by itself."""
        if traveller.error is not None:
            raise traveller.error
        placed: list[Placed] = traveller.placed or self._perform(traveller.operation)
        return placed

    def _lead(self, first: Traveller) -> list[Placed]:
        if not self._gather(first):
            placed: list[Placed] = self._perform(first.operation)
            return placed
        everybody = [first, *first.company]
        try:
            answers = self._perform(first.load.put(_joined(everybody)))
            for each, answer in zip(everybody, answers, strict=True):
                each.placed = [answer]
        except StoreUnavailable as error:  # it has nothing to do with any of the requests
            for each in everybody:
                each.error = error
        except Exception:
            log.debug("%d requests go one by one", len(everybody), exc_info=True)  # each is told of its own
        self._leave(first)
        return self._arrive(first)

    def _gather(self, first: Traveller) -> list[Traveller]:
        """Take along those who wait with requests of the same kind."""
        with self._lock:
            self._leader = threading.get_ident()
            if self._waiting:
                pattern = first.load.bundle.pattern
                kin = [each for each in self._waiting if each.load.bundle.pattern is pattern]
                first.company = kin[: LIMIT - 1]
                self._waiting = [each for each in self._waiting if each not in first.company]
            return first.company

    def _leave(self, traveller: Traveller) -> None:
        """Tell those it took along, and hand on the lead; whatever happened to it meanwhile."""
        with self._lock:
            if traveller in self._waiting:
                self._waiting.remove(traveller)
            called, traveller.company = traveller.company, []
            if traveller.leads:
                traveller.leads = False
                called = self._succeeded() + called  # the next message first: the others have their answer
        for each in called:
            each.call()

    def _succeeded(self) -> list[Traveller]:
        """The next to lead, if anybody waits."""
        self._leader = None
        if not self._waiting:
            return []
        heir = self._waiting.pop(0)
        heir.leads, self._leader = True, 0  # nobody else sets out before it does
        return [heir]


def _joined(travellers: list[Traveller]) -> Bundle:
    bundles = [each.load.bundle for each in travellers]
    ids = [job_id for bundle in bundles for job_id in bundle.ids]
    return Bundle(bundles[0].pattern, ids, [text for bundle in bundles for text in bundle.arguments])
