"""A producer of a chaos run: asks for work of every kind, changes its mind, and writes down what it was told.

What it asks for follows from the seed; what it is answered does not.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from tests.chaos import shop
from tests.chaos.journal import die_with_parent
from tests.chaos.shop import asked, journal
from tests.chaos.tables import OWN_TABLE, RATE, SEED

from duly.errors import DulyError, StoreError


class Producer:
    """One stream of requests."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self._recent: deque[str] = deque(maxlen=30)
        self._failing: deque[str] = deque(maxlen=30)

    def act(self) -> None:
        """One request, chosen by weight."""
        self._count += 1
        names = list(ACTS)
        name = self._rng.choices(names, [ACTS[name][0] for name in names])[0]
        ACTS[name][1](self, f"{journal.process}-{self._count}-{name}")

    # plain

    def plain(self, op: str) -> None:
        task = self._rng.choice([shop.quick, shop.quick, shop.aquick, shop.once, shop.once_child])
        self._ask(task, op, self._payload(), priority=self._rng.choice([-10, 0, 0, 50]))

    def slow(self, op: str) -> None:
        task = self._rng.choice([shop.slow, shop.slow_thread, shop.slow_child])
        self._ask(task, op, round(self._rng.uniform(0.2, 4.0), 2))

    def long(self, op: str) -> None:
        """Somebody must be at work whenever a worker is cut off."""
        self._ask(self._rng.choice([shop.slow, shop.slow_child]), op, round(self._rng.uniform(4.0, 8.0), 2))

    def delayed(self, op: str) -> None:
        self._ask(shop.quick, op, self._payload(), run_after=round(self._rng.uniform(0.3, 3.0), 2))

    def deferred(self, op: str) -> None:
        self._ask(shop.deferred, op, self._payload())

    def chain(self, op: str) -> None:
        asked(shop.chain, op, self._rng.randint(1, 3))

    # failures

    def flaky(self, op: str) -> None:
        failures = self._rng.randint(0, 5)
        job = asked(shop.flaky, op, failures)
        if job and failures >= 4:
            self._failing.append(job)

    def doomed(self, op: str) -> None:
        job = asked(shop.doomed, op, self._payload())
        if job:
            self._failing.append(job)

    def poison(self, op: str) -> None:
        asked(self._rng.choice([shop.poison, shop.poison_worker]), op, self._payload())

    def stubborn(self, op: str) -> None:
        asked(shop.stubborn, op, self._payload())

    # keys

    def keyed(self, op: str) -> None:
        task = self._rng.choice([shop.queue_one, shop.skip, shop.allow, shop.cancel_previous])
        wishes: dict[str, Any] = {"key": f"k{self._rng.randint(0, 2)}"}
        if self._rng.random() < 0.25:
            wishes["replace"] = True
        if self._rng.random() < 0.3:
            wishes["run_after"] = round(self._rng.uniform(0.2, 1.0), 2)
        self._ask(task, op, round(self._rng.uniform(0.0, 0.8), 2), **wishes)

    def keyed_flaky(self, op: str) -> None:
        wishes: dict[str, Any] = {"replace": True} if self._rng.random() < 0.3 else {}
        key = f"f{self._rng.randint(0, 2)}"
        self._ask(shop.keyed_flaky, op, self._rng.randint(0, 3), key=key, **wishes)

    def guarded(self, op: str) -> None:
        asked(shop.guarded, op, self._payload(), key=f"g{self._rng.randint(0, 2)}")

    def trailing(self, op: str) -> None:
        asked(shop.trailing, op, self._payload(), key=f"t{self._rng.randint(0, 2)}")

    def perpetual(self, op: str) -> None:
        pause = round(self._rng.uniform(0.2, 1.0), 2)
        task, key = self._rng.choice([(shop.watch, "v0"), (shop.watch, "v1"), (shop.steady, "s0")])
        wishes: dict[str, Any] = {"replace": True} if self._rng.random() < 0.7 else {}
        asked(task, op, pause, key=key, **wishes)

    # limits

    def narrow(self, op: str) -> None:
        self._ask(shop.narrow, op, round(self._rng.uniform(0.1, 0.5), 2))

    def paced(self, op: str) -> None:
        self._ask(shop.paced, op, self._payload())

    def locked(self, op: str) -> None:
        asked(shop.locked, op, f"till {self._rng.randint(0, 1)}")

    # orders

    def cancel(self, op: str) -> None:
        if self._recent:
            self._order("cancel", op, self._rng.choice(list(self._recent)), shop.app.jobs.cancel)

    def retry(self, op: str) -> None:
        if self._failing:
            self._order("retry", op, self._rng.choice(list(self._failing)), shop.app.jobs.retry)

    def _order(self, kind: str, op: str, job: str, order: Callable[..., Any]) -> None:
        with contextlib.suppress(StoreError), journal.around(kind, op=op, id=job) as answer:
            acted = order(job, by=journal.process)
            answer |= {"took_effect": bool(acted), "refused": acted.refused.get(job, "")}

    def exact(self, op: str) -> None:
        if shop.EXACT:
            self._ask(self._rng.choice(shop.EXACT), op, self._rng.randint(0, 5))

    # in a transaction of one's own

    def bought(self, op: str) -> None:
        """Committed, rolled back, or cut off in between."""
        task = self._rng.choice([shop.bought, shop.bought_keyed])
        wishes = {"key": f"b{self._rng.randint(0, 3)}"} if task is shop.bought_keyed else {}
        commits = self._rng.random() < 0.7
        with contextlib.suppress(StoreError, *_errors()), _connected() as connection:
            if os.environ.get(OWN_TABLE):
                connection.execute(f"insert into orders values ('{op}')")
            job = asked(task, op, self._payload(), connection=connection, **wishes)
            if job is None:
                journal.write("tx", phase="call", op=op, commits=False)
                connection.rollback()
                return
            with journal.around("tx", op=op, commits=commits):
                (connection.commit if commits else connection.rollback)()

    def _ask(self, task: Any, op: str, payload: Any, **wishes: Any) -> None:
        job = asked(task, op, payload, **wishes)
        if job:
            self._recent.append(job)

    def _payload(self) -> Any:
        """Values of every kind that must come back as they were."""
        rng = self._rng
        words = ["", "ü\u2028", "'; drop table", "🜚" * 3, "x" * rng.randint(0, 2000)]
        numbers = [0, -1, 2**63, -(2**70), 0.1, -0.0, 1e300]
        return {"word": rng.choice(words), "list": [rng.choice(numbers), None, True], "b": rng.randbytes(9)}


ACTS: Final[dict[str, tuple[float, Callable[[Producer, str], None]]]] = {
    "plain": (20, Producer.plain),
    "slow": (8, Producer.slow),
    "long": (7, Producer.long),
    "delayed": (8, Producer.delayed),
    "deferred": (3, Producer.deferred),
    "chain": (3, Producer.chain),
    "flaky": (6, Producer.flaky),
    "doomed": (2, Producer.doomed),
    "poison": (0.6, Producer.poison),
    "stubborn": (0.8, Producer.stubborn),
    "keyed": (16, Producer.keyed),
    "keyed_flaky": (5, Producer.keyed_flaky),
    "guarded": (6, Producer.guarded),
    "trailing": (5, Producer.trailing),
    "perpetual": (4, Producer.perpetual),
    "narrow": (6, Producer.narrow),
    "paced": (8, Producer.paced),
    "locked": (4, Producer.locked),
    "cancel": (8, Producer.cancel),
    "retry": (2, Producer.retry),
    "bought": (8, Producer.bought),
    "exact": (10, Producer.exact),
}


def _errors() -> tuple[type[Exception], ...]:
    if shop.app.settings.url.startswith("postgres"):
        import psycopg

        return (psycopg.Error,)
    return (sqlite3.Error,)


@contextmanager
def _connected() -> Generator[Any]:
    """A connection of the caller's own, as an application would open it."""
    url = shop.app.settings.url
    if url.startswith("postgres"):
        import psycopg

        connection: Any = psycopg.connect(url, connect_timeout=3)
    elif url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0], timeout=3)
        connection.execute("begin immediate")
    else:
        raise StoreError("a job in Redis cannot be part of anybody's transaction")
    try:
        yield connection
    finally:
        connection.close()


def main() -> int:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    producer = Producer(random.Random(f"{os.environ[SEED]} {journal.process}"))
    rng = random.Random(f"{os.environ[SEED]} {journal.process} pauses")
    die_with_parent()
    journal.write("born", parent=os.getppid())
    while not stopping.wait(rng.expovariate(float(os.environ[RATE]))):
        try:
            producer.act()
        except DulyError as error:
            journal.write("refused", error=repr(error)[:300])
            raise
    journal.write("exit", code=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
