"""What the store's part of Duly's work takes by itself: no worker, no loop, no other thread around it.

    python -m benchmarks.alone ADAPTER COMMAND START AMOUNT SECONDS

Beside the raw limit it tells what Duly's promises cost in the store; beside Duly's own figure, what the rest
costs. Only the conversations with the store are timed: what Python does between two of them, a worker does
meanwhile.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

from benchmarks import duly_app
from benchmarks.quantiles import quantile
from benchmarks.raw import BATCH
from duly.bundle import Bundle
from duly.errors import LeaseLost
from duly.ids import new_id, worker_id
from duly.job import Claim, Request
from duly.lifecycle import Done
from duly.stores.contract import Ask, Lane, Settlement, WorkerCard
from duly.stores.drive import Operation
from duly.transactions import source_for

T = TypeVar("T")

DONE: Final = Done()
WORKER: Final = worker_id()
PATIENCE: Final = timedelta(seconds=1)
QUIET: Final = timedelta(milliseconds=2)


class Conversation:
    """With the store of the application, and how long it has lasted."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._store = duly_app.app.store

    def say(self, operation: Operation[T]) -> T:
        began = time.perf_counter()
        answer = self._store.run(operation)
        self.seconds += time.perf_counter() - began
        return answer


def enqueue(start: int, amount: int, seconds: float) -> float:
    """Single requests that are made beforehand; how many a second."""
    store, conversation, done = duly_app.app.store, Conversation(), 0
    requests = _requests(start, amount)
    while done < amount and conversation.seconds < seconds:
        conversation.say(store.put(requests[done]))
        done += 1
    return done / conversation.seconds


def drain(_: int, amount: int, seconds: float) -> float:
    """One turn after another, each of which ends what the last one lent; jobs a second."""
    store, conversation, done = duly_app.app.store, Conversation(), 0
    ask, ended = _enlisted(), list[Settlement]()
    while done < amount and conversation.seconds < seconds:
        ended = _ended(conversation.say(store.turn(ended, ask)).claimed.claims)
        done += len(ended)
    return done / conversation.seconds


def exact(_: int, amount: int, seconds: float) -> float:
    """Inserts that commit with the end of a job, one after the other, on connections as bodies get them."""
    app, done, taken = duly_app.app, 0, 0.0
    ask, source = _enlisted(), source_for(app.store, None, app.settings.lease)
    insert = f"insert into effect (number) values ({duly_app.MARK})"
    while done < amount and taken < seconds:
        for settlement in _ended(app.store.run(app.store.claim(ask)).claims):
            transaction = source.lend(settlement.fence.id)
            began = time.perf_counter()
            transaction.connection.execute(insert, (done,))
            if not transaction.finish(WORKER, settlement):
                raise LeaseLost(f"job {settlement.fence.id} is not lent any more")
            taken += time.perf_counter() - began
            transaction.give_back()
            done += 1
    source.close()
    return done / taken


def latency(start: int, amount: int, seconds: float) -> float:
    """A request, its ring, and the claim that acknowledges it, in one thread; the median, in milliseconds."""
    store, ask, took = duly_app.app.store, _enlisted(), list[float]()
    bell, until = store.doorbell(), time.perf_counter() + seconds
    for request in _requests(start, amount):
        bell.wait(QUIET)
        began = time.perf_counter()
        store.run(store.put(request))
        store.ring()
        bell.wait(PATIENCE)
        claims = store.run(store.claim(ask)).claims
        took.append((time.perf_counter() - began) * 1e3)
        store.run(store.settle(WORKER, _ended(claims)))
        if time.perf_counter() > until:
            break
    return quantile(took, 0.5) or 0.0


def _requests(start: int, amount: int) -> list[Bundle]:
    """Each by itself, as a plain `enqueue` makes them."""
    pattern = Request(id="", task=duly_app.noop.name, arguments="")
    return [Bundle(pattern, [new_id()], [f"[[{number}],{{}}]"]) for number in range(start, start + amount)]


def _enlisted() -> Ask:
    """A worker's question, and the lease without which it is lent nothing."""
    app = duly_app.app
    card = WorkerCard(WORKER, "alone", socket.gethostname(), os.getpid(), app.clock.now())
    app.store.run(app.store.renew(card, [], app.settings.lease))
    lanes = {name: Lane(name) for name in app.tasks}
    return Ask(WORKER, lanes, app.settings.lease, limit=BATCH, free=BATCH)


def _ended(claims: Sequence[Claim]) -> list[Settlement]:
    now = duly_app.app.clock.now()
    return [Settlement(claim.fence, DONE, now, generation=claim.generation) for claim in claims]


COMMANDS: Final = {"enqueue": enqueue, "drain": drain, "exact": exact, "latency": latency}


def main() -> None:
    """Answers one line of JSON, as a driver does."""
    _, command, start, amount, seconds = sys.argv[1:]
    duly_app.app.open()
    found = COMMANDS[command](int(float(start)), int(float(amount)), float(seconds))
    print(json.dumps({command: found}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
