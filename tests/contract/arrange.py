"""What the contract tests say over and over: small requests, a worker in miniature, a look at a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final, TypedDict, Unpack

from duly.job import Claim, Clash, Delivery, Guard, Job, Keep, Overlap, Request, State
from duly.lifecycle import Done, Settled, Verdict
from duly.stores.contract import (
    Amended,
    Amendment,
    Ask,
    Cancel,
    Claimed,
    Delete,
    Lane,
    Page,
    Placed,
    Renewal,
    Revive,
    Selection,
    Settlement,
    Store,
    WorkerCard,
)
from duly.testing.clock import START

TASK: Final = "send"
KEY: Final = "lease:42"
LEASE: Final = timedelta(seconds=30)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)

_numbers = count(1)


class Fields(TypedDict, total=False):
    """The fields of a Request a test may set."""

    id: str
    task: str
    arguments: str
    queue: str
    priority: int
    serial: str | None
    run_after: datetime | None
    delay: timedelta | None
    expires_after: timedelta | None
    clash: Clash
    overlap: Overlap
    per_key: int
    guard: Guard | None
    delivery: Delivery
    keep: Keep
    perpetual: bool
    tick: datetime | None
    context: str


def request(key: str | None = None, **fields: Unpack[Fields]) -> Request:
    """An ordinary request: due now, for TASK, with arguments nobody reads."""
    fields.setdefault("id", f"job-{next(_numbers)}")
    fields.setdefault("task", TASK)
    fields.setdefault("arguments", "[[],{}]")
    if fields.get("overlap") is Overlap.ALLOW:
        fields.setdefault(
            "per_key", 0
        )  # as the task option does: a limit of one would forbid what is allowed
    return Request(key=key, **fields)


def replacing(key: str = KEY, **fields: Unpack[Fields]) -> Request:
    """A request that supersedes whatever stands for its key."""
    return replace(request(key, **fields), clash=Clash.REPLACE)


def tick(number: int, **fields: Unpack[Fields]) -> Request:
    """The number-th tick of one schedule: a key of its own, one serial for all."""
    return replace(
        request(f"nightly@{number}", **fields), serial="schedule|nightly", tick=START + number * MINUTE
    )


# --- asking -------------------------------------------------------------------------------------


def put(store: Store, *requests: Request) -> list[Placed]:
    return store.run(store.put(requests))


def put_one(store: Store, wanted: Request) -> Placed:
    [placed] = put(store, wanted)
    return placed


def ask(
    worker: str = "w1",
    *,
    lanes: Iterable[Lane] = (Lane(TASK),),
    limit: int = 100,
    free: int | None = None,
    queues: frozenset[str] | None = None,
    takes_over: bool = True,
) -> Ask:
    return Ask(
        worker=worker,
        lanes={lane.task: lane for lane in lanes},
        lease=LEASE,
        limit=limit,
        free=limit if free is None else free,
        queues=queues,
        takes_over=takes_over,
    )


def claim(store: Store, asked: Ask | None = None) -> Claimed:
    return store.run(store.claim(asked or ask()))


def claim_all(store: Store, worker: str = "w1", *, limit: int = 100) -> Sequence[Claim]:
    return claim(store, ask(worker, limit=limit)).claims


def claim_one(store: Store, worker: str = "w1") -> Claim:
    """The one job that is ready; a test that expects another number has claim_all."""
    [lent] = claim_all(store, worker)
    return lent


def start(store: Store, wanted: Request, worker: str = "w1") -> Claim:
    """Put a job and lend it."""
    put_one(store, wanted)
    return claim_one(store, worker)


def begin(store: Store, lent: Claim, *, isolated: bool = False, once: bool = False) -> bool:
    return lent.fence in store.run(store.begin([lent.fence], isolated=isolated, once=once))


def card(worker: str = "w1", *, host: str = "host-1", tasks: tuple[str, ...] = (TASK,)) -> WorkerCard:
    return WorkerCard(worker, worker, host, 1, START, tasks=tasks)


def beat(store: Store, *held: Claim, worker: str = "w1", host: str = "host-1") -> Renewal:
    return store.run(store.renew(card(worker, host=host), [lent.fence for lent in held], LEASE))


def settle(
    store: Store,
    lent: Claim,
    verdict: Verdict | None = None,
    *,
    then: Sequence[Request] = (),
    worker: str = "w1",
    arguments: str | None = None,
) -> Settled:
    ended = Settlement(
        lent.fence, verdict or Done(), then=tuple(then), arguments=arguments, generation=lent.generation
    )
    [answer] = store.run(store.settle(worker, [ended]))
    return answer


def amend(store: Store, job_id: str, amendment: Amendment, *, by: str = "") -> Amended:
    [amended] = store.run(store.amend(Selection(ids=(job_id,)), amendment, by=by))
    return amended


def cancel(store: Store, job_id: str) -> Amended:
    return amend(store, job_id, Cancel())


def delete(store: Store, job_id: str) -> Amended:
    return amend(store, job_id, Delete())


def revive(store: Store, job_id: str) -> Amended:
    return amend(store, job_id, Revive())


# --- looking ------------------------------------------------------------------------------------


def find(store: Store, selection: Selection | None = None, *, limit: int = 1000) -> list[Job]:
    return store.run(store.find(selection or Selection(), Page(limit=limit, with_history=True)))


def look(store: Store, job_id: str) -> Job:
    [job] = find(store, Selection(ids=(job_id,)))
    return job


def exists(store: Store, job_id: str) -> bool:
    return bool(find(store, Selection(ids=(job_id,))))


def state(store: Store, job_id: str) -> State:
    return look(store, job_id).state


def waiting(store: Store, key: str = KEY) -> list[Job]:
    return find(store, Selection(key=key, states=(State.WAITING,)))


def ids(claims: Iterable[Claim]) -> list[str]:
    return [lent.id for lent in claims]


def events(store: Store, job_id: str) -> list[str]:
    return [line.event for line in look(store, job_id).history]
