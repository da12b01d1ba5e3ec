"""Plain requests of several threads, in one message.

A commit waits for the disk, and eight threads that commit one by one wait eight times; each message costs
the server, and the interpreter that they share, more than a request does. So whoever finds a message under
way waits for its end, and the first of those who waited takes the others along, in one write of many
requests like any other. While half of a small crowd is at the server the other half makes ready, and sets
out once it is complete. Eight threads get about three times as much done as one. Who is alone waits for
nobody, and every call still returns when its own request is durable.

What a request does wrong is told to its own caller: when a shared write fails, each goes by itself. That may
be done twice, since a request is known by its id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import pairwise
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
ABREAST: Final = 2
"""Messages under way at once."""
SHARE: Final = 4
"""So many need not wait for a message that is under way, nor half of those who are about. Fewer would cost
more than they gain: with a second message for whoever came next, one process out of five had one request in
one and seven in the other, and got a third less done."""
CROWD: Final = 16
"""Of more threads one message at a time gets more done: they are in each other's way."""
FADING: Final = 0.25
"""How much smaller a crowd is taken to be with every message that found fewer about."""
PATIENCE: Final = 1.0
"""Seconds after which whoever waits sets out: the connection of a message under way may be dead."""


class Load(NamedTuple):
    """A single plain request, and how to ask for several of its kind."""

    bundle: Bundle
    put: Callable[[Bundle], Operation[list[Placed]]]


class Lead:
    """One message under way, or about to be."""

    __slots__ = ("aboard", "since", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.since = time.monotonic()
        self.aboard = 1


class Traveller:
    """One caller and its request."""

    def __init__(self, operation: Operation[list[Placed]], load: Load) -> None:
        self.operation = operation
        self.load = load
        self.lead = Lead()
        self.is_leading = False
        self.company: list[Traveller] = []
        """Those it takes along when it leads."""
        self.behind: Traveller | None = None
        """Whom to call when it leaves. All at once they would stand in line for the interpreter."""
        self.has_left = False
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


def may_set_out(ready: int, under_way: int, crowd: float) -> bool:
    """Whether so many need not wait for one of the messages under way, where so many threads are about."""
    if not under_way:
        return True
    return under_way < ABREAST and crowd <= CROWD and ready >= min(SHARE, crowd / 2)


class Convoy:
    """The messages under way, and those who wait for the next. A forked child makes its own."""

    def __init__(self, perform: Callable[[Operation[Any]], Any]) -> None:
        self._perform = perform
        self._lock = threading.RLock()  # a signal may strike in here, and its answer be another request
        self._is_inside: Callable[[], bool] = getattr(self._lock, "_is_owned")  # noqa: B009  as Condition asks
        self._leads: list[Lead] = []
        """Messages under way. One that was struck down before it could say that it has ended counts no longer
        than `PATIENCE`."""
        self._waiting: list[Traveller] = []
        self._crowd = 1.0
        """How many threads are about, as far as was seen of late."""

    def carry(self, operation: Operation[list[Placed]], load: Load) -> list[Placed]:
        """Perform the operation, or have it performed together with others."""
        if self._is_inside():  # a signal's: it must neither wait here nor find what is half done
            asked: list[Placed] = self._perform(operation)
            return asked
        lead = Lead()
        try:
            if self._may_set_out(lead):
                placed: list[Placed] = self._perform(operation)
                return placed
        finally:
            self._hand_on(lead)
        return self._travel(Traveller(operation, load))

    def _may_set_out(self, lead: Lead, ready: int = 1) -> bool:
        """Whether it need not wait: those who are ready may, or what is under way is its own thread's."""
        with self._lock:
            if self._leads and not self._may_join(lead, ready):
                return False
            self._leads.append(lead)
            return True

    def _may_join(self, lead: Lead, ready: int) -> bool:
        """Whether it may set out beside others."""
        self._leads = [each for each in self._leads if lead.since - each.since < PATIENCE]
        return self._may_go(ready) or lead.thread in [each.thread for each in self._leads]

    def _may_go(self, ready: int) -> bool:
        self._crowd = max(self._crowd, ready + self._aboard())
        return may_set_out(ready, len(self._leads), self._crowd)

    def _aboard(self) -> int:
        return sum([each.aboard for each in self._leads])

    def _hand_on(self, lead: Lead) -> None:
        with self._lock:
            heirs = self._succeeded(lead)
        for each in heirs:
            each.call()

    def _travel(self, traveller: Traveller) -> list[Placed]:
        try:
            if not self._sets_out(traveller) and not traveller.wait():
                self._give_up(traveller)
            return self._lead(traveller) if traveller.is_leading else self._arrive(traveller)
        finally:
            self._leave(traveller)

    def _sets_out(self, traveller: Traveller) -> bool:
        """Whether it completes a share, or a message has come to its end; else it waits with the others."""
        with self._lock:
            traveller.is_leading = self._may_set_out(traveller.lead, len(self._waiting) + 1)
            if not traveller.is_leading:
                self._waiting.append(traveller)
            return traveller.is_leading

    def _give_up(self, traveller: Traveller) -> None:
        """Nobody came: lead the others that wait. Whose messages are under way may have been struck down."""
        with self._lock:
            if traveller in self._waiting:
                self._waiting.remove(traveller)
                self._appoint(traveller)

    def _appoint(self, traveller: Traveller) -> None:
        traveller.is_leading = True
        traveller.lead.since = time.monotonic()
        self._leads.append(traveller.lead)

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
            if self._waiting:
                pattern = first.load.bundle.pattern
                kin = [each for each in self._waiting if each.load.bundle.pattern is pattern]
                company = kin[: LIMIT - 1]
                self._waiting = [each for each in self._waiting if each not in company]
                first.company = company
            first.lead.aboard += len(first.company)
            self._crowd = max(self._crowd - FADING, len(self._waiting) + self._aboard())
            return first.company

    def _leave(self, traveller: Traveller) -> None:
        """Tell those it took along, and hand on the lead; whatever happened to it meanwhile."""
        with self._lock:
            if traveller in self._waiting:
                self._waiting.remove(traveller)
            traveller.has_left = True
            called = self._company_of(traveller)
            if traveller.is_leading:
                traveller.is_leading = False
                called = self._succeeded(traveller.lead) + called  # the others have their answer
        for each in called:
            each.call()

    def _company_of(self, traveller: Traveller) -> list[Traveller]:
        """Whom it calls: the one behind it, and the first of those it took along, who call each other."""
        company = [each for each in traveller.company if not each.has_left]
        for one, next_one in pairwise(company):
            one.behind = next_one
        called = company[:1] if traveller.behind is None else [traveller.behind, *company[:1]]
        traveller.behind, traveller.company = None, []
        return called

    def _succeeded(self, lead: Lead) -> list[Traveller]:
        """The next to lead, if those who wait may set out: nobody else does in its place."""
        if lead in self._leads:  # else it took too long, and others went past it
            self._leads.remove(lead)
        if not self._waiting or not self._may_go(len(self._waiting)):
            return []
        heir = self._waiting.pop(0)
        self._appoint(heir)
        return [heir]


def _joined(travellers: list[Traveller]) -> Bundle:
    bundles = [each.load.bundle for each in travellers]
    ids = [job_id for bundle in bundles for job_id in bundle.ids]
    return Bundle(bundles[0].pattern, ids, [text for bundle in bundles for text in bundle.arguments])
