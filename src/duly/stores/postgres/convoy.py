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
ABREAST: Final = 1
"""Messages under way at once. With two, eight threads got a quarter more done in some processes, and a sixth
less in others, each of them for as long as it lasted."""
PATIENCE: Final = 1.0
"""Seconds after which whoever waits sets out: the connection of a message under way may be dead."""


class Load(NamedTuple):
    """A single plain request, and how to ask for several of its kind."""

    bundle: Bundle
    put: Callable[[Bundle], Operation[list[Placed]]]


class Lead:
    """One message under way, or about to be."""

    __slots__ = ("since", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.since = time.monotonic()


class Traveller:
    """One caller and its request."""

    def __init__(self, operation: Operation[list[Placed]], load: Load) -> None:
        self.operation = operation
        self.load = load
        self.lead = Lead()
        self.leads = False
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


class Convoy:
    """The messages under way, and those who wait for the next. A forked child makes its own."""

    def __init__(self, perform: Callable[[Operation[Any]], Any]) -> None:
        self._perform = perform
        self._lock = threading.RLock()  # a signal may strike in here, and its answer be another request
        self._leads: list[Lead] = []
        """Messages under way. One that was struck down before it could say that it has ended counts no longer
        than `PATIENCE`."""
        self._waiting: list[Traveller] = []

    def carry(self, operation: Operation[list[Placed]], load: Load) -> list[Placed]:
        """Perform the operation, or have it performed together with others."""
        lead = Lead()
        try:
            if self._may_set_out(lead):
                placed: list[Placed] = self._perform(operation)
                return placed
        finally:
            self._hand_on(lead)
        return self._travel(Traveller(operation, load))

    def _may_set_out(self, lead: Lead) -> bool:
        """Whether it need not wait: there is room beside what is under way, or that is its own thread's."""
        with self._lock:
            if len(self._leads) >= ABREAST:
                self._leads = [each for each in self._leads if lead.since - each.since < PATIENCE]
            if len(self._leads) >= ABREAST and lead.thread not in [each.thread for each in self._leads]:
                return False
            self._leads.append(lead)
            return True

    def _hand_on(self, lead: Lead) -> None:
        with self._lock:
            heirs = self._succeeded(lead)
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
        """Whether a message has come to its end meanwhile; else it waits with the others."""
        with self._lock:
            traveller.leads = self._may_set_out(traveller.lead)
            if not traveller.leads:
                self._waiting.append(traveller)
            return traveller.leads

    def _give_up(self, traveller: Traveller) -> None:
        """Nobody came: lead the others that wait. Whose messages are under way may have been struck down."""
        with self._lock:
            if traveller in self._waiting:
                self._waiting.remove(traveller)
                self._appoint(traveller)

    def _appoint(self, traveller: Traveller) -> None:
        traveller.leads = True
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
            return first.company

    def _leave(self, traveller: Traveller) -> None:
        """Tell those it took along, and hand on the lead; whatever happened to it meanwhile."""
        with self._lock:
            if traveller in self._waiting:
                self._waiting.remove(traveller)
            traveller.has_left = True
            called = self._company_of(traveller)
            if traveller.leads:
                traveller.leads = False
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
        """The next to lead, if anybody waits and there is room: nobody else sets out in its place."""
        if lead in self._leads:  # else it took too long, and others went past it
            self._leads.remove(lead)
        if not self._waiting or len(self._leads) >= ABREAST:
            return []
        heir = self._waiting.pop(0)
        self._appoint(heir)
        return [heir]


def _joined(travellers: list[Traveller]) -> Bundle:
    bundles = [each.load.bundle for each in travellers]
    ids = [job_id for bundle in bundles for job_id in bundle.ids]
    return Bundle(bundles[0].pattern, ids, [text for bundle in bundles for text in bundle.arguments])
