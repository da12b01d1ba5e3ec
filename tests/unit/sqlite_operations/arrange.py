"""Small requests, asks and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import Claim, Job, Request, State
from duly.lifecycle import Done, Verdict
from duly.stores.contract import Ask, Lane, Page, Selection, Settlement

TASK = "send"
SECOND = timedelta(seconds=1)
LEASE = 30 * SECOND

_numbers = count(1)


def request(**fields: Any) -> Request:
    return replace(Request(id=f"job-{next(_numbers)}", task=TASK, arguments="[]"), **fields)


def requests(amount: int, **fields: Any) -> list[Request]:
    return [request(**fields) for _ in range(amount)]


def ask(worker: str = "w1", *lanes: Lane, limit: int = 100) -> Ask:
    known = {lane.task: lane for lane in lanes or (Lane(TASK),)}
    return Ask(worker=worker, lanes=known, lease=LEASE, limit=limit, free=limit)


def lend(store: PlainStore, worker: str = "w1", *, limit: int = 100) -> list[Claim]:
    return [*store.run(store.claim(ask(worker, limit=limit))).claims]


def done(claims: Sequence[Claim], verdict: Verdict | None = None) -> list[Settlement]:
    return [Settlement(claim.fence, verdict or Done(), generation=claim.generation) for claim in claims]


def job(store: PlainStore, job_id: str) -> Job:
    [found] = store.run(store.find(Selection(ids=(job_id,)), Page(with_history=True)))
    return found


def states(store: PlainStore) -> set[State]:
    return {found.state for found in store.run(store.find(Selection(), Page(limit=10_000)))}
