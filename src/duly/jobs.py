"""`app.jobs`: look at jobs and act on them, by id or by what they have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from duly.audit import NAMED, Audit
from duly.converse import Conversation, aconverse, converse
from duly.durations import Duration, duration
from duly.errors import BadRequest, ResultTimeout, UnknownJob
from duly.job import FINISHED, LIVE, Job, State
from duly.stores.contract import Amended, Amendment, Cancel, Delete, Page, Postpone, Revive, Selection, Store
from duly.stores.drive import Operation
from duly.stores.reports import Found, Search

T = TypeVar("T")

JobList = list[Job]
AmendedList = list[Amended]
"""Named, because inside `Jobs` the word `list` is a method."""

BATCH = 500
"""Jobs per write: an order to a hundred thousand must not keep everybody else from the store."""

MEANT: Final[Mapping[type[Amendment], frozenset[State]]] = {Cancel: LIVE, Postpone: LIVE, Revive: FINISHED}
"""The states an order by filters is about, unless these say."""

ORDERS: Final[Mapping[type[Amendment], str]] = {
    Cancel: "cancel",
    Delete: "delete",
    Revive: "retry",
    Postpone: "postpone",
}
"""What the audit calls them."""

FIRST_LOOK, LAST_LOOK = 0.002, 0.1
"""Seconds between two looks at a job that somebody waits for: quick at first, then gentle."""


class HasId(Protocol):
    """A handle, a job or anything else that names a job."""

    @property
    def id(self) -> str: ...


class Acted(NamedTuple):
    """What became of an order to many jobs."""

    changed: list[str]
    refused: dict[str, str]
    """Job id to the reason."""

    def __bool__(self) -> bool:
        return bool(self.changed)

    def note(self, answers: AmendedList) -> None:
        """The store's answers to one part of the order."""
        self.changed.extend(answer.id for answer in answers if answer.took_effect)
        self.refused.update({answer.id: answer.reason for answer in answers if not answer.took_effect})


class Jobs:
    """Every method has an async twin with a leading `a`."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._audit = Audit(store)

    # looking

    def list(self, *, limit: int = 100, before: int | None = None, **filters: Any) -> JobList:
        """Jobs, newest first. Filters: task, state, key, queue, error (a part of its text), fingerprint."""
        return self._run(self._find(limit, before, filters))

    async def alist(self, *, limit: int = 100, before: int | None = None, **filters: Any) -> JobList:
        """The async twin of list."""
        return await self._arun(self._find(limit, before, filters))

    def count(self, **filters: Any) -> int:
        """How many jobs match."""
        return self._run(self._store().count(selection(filters)))

    async def acount(self, **filters: Any) -> int:
        """The async twin of count."""
        return await self._arun(self._store().count(selection(filters)))

    def search(
        self, text: str, *, limit: int = 50, before: int | None = None, depth: int = 20_000, **filters: Any
    ) -> Found:
        """Jobs with a text in key, arguments or error, newest first; at most `depth` jobs are looked at."""
        return self._run(self._store().search(selection(filters), Search(text, limit, depth, before)))

    async def asearch(
        self, text: str, *, limit: int = 50, before: int | None = None, depth: int = 20_000, **filters: Any
    ) -> Found:
        """The async twin of search."""
        return await self._arun(self._store().search(selection(filters), Search(text, limit, depth, before)))

    def get(self, job: str | HasId) -> Job:
        """One job with its history; UnknownJob if it is not there."""
        return _only(id_of(job), self._run(self._get(id_of(job))))

    async def aget(self, job: str | HasId) -> Job:
        """The async twin of get."""
        return _only(id_of(job), await self._arun(self._get(id_of(job))))

    # acting

    def retry(self, *jobs: str | HasId, by: str = "", **filters: Any) -> Acted:
        """Run finished jobs once more, as new requests; refused where a newer one exists."""
        return converse(self._store(), self._amend(jobs, filters, Revive(), by))

    async def aretry(self, *jobs: str | HasId, by: str = "", **filters: Any) -> Acted:
        """The async twin of retry."""
        return await aconverse(self._store(), self._amend(jobs, filters, Revive(), by))

    def cancel(self, *jobs: str | HasId, by: str = "", **filters: Any) -> Acted:
        """Cancel waiting jobs; ask running ones to stop."""
        return converse(self._store(), self._amend(jobs, filters, Cancel(), by))

    async def acancel(self, *jobs: str | HasId, by: str = "", **filters: Any) -> Acted:
        """The async twin of cancel."""
        return await aconverse(self._store(), self._amend(jobs, filters, Cancel(), by))

    def delete(self, *jobs: str | HasId, by: str = "", **filters: Any) -> Acted:
        """Forget jobs; running ones are asked to stop first."""
        return converse(self._store(), self._amend(jobs, filters, Delete(), by))

    async def adelete(self, *jobs: str | HasId, by: str = "", **filters: Any) -> Acted:
        """The async twin of delete."""
        return await aconverse(self._store(), self._amend(jobs, filters, Delete(), by))

    def postpone(self, *jobs: str | HasId, at: datetime | None = None, by: str = "", **filters: Any) -> Acted:
        """Make waiting jobs ready at another time; now, when `at` is not given."""
        return converse(self._store(), self._amend(jobs, filters, Postpone(_aware(at)), by))

    async def apostpone(
        self, *jobs: str | HasId, at: datetime | None = None, by: str = "", **filters: Any
    ) -> Acted:
        """The async twin of postpone."""
        return await aconverse(self._store(), self._amend(jobs, filters, Postpone(_aware(at)), by))

    # waiting

    def wait_all(self, jobs: Iterable[str | HasId], timeout: Duration | None = None) -> JobList:
        """Wait until all have finished; returns them in the order given."""
        limit = None if timeout is None else duration(timeout, what="timeout")
        pace = Pace(limit)
        ended = Ended([id_of(job) for job in jobs])
        while not ended.take(self._run(self._find_many(ended.missing))):
            time.sleep(pace.next(ended.missing[0]))
        return ended.in_order()

    async def await_all(self, jobs: Iterable[str | HasId], timeout: Duration | None = None) -> JobList:
        """The async twin of wait_all."""
        limit = None if timeout is None else duration(timeout, what="timeout")
        pace = Pace(limit)
        ended = Ended([id_of(job) for job in jobs])
        while not ended.take(await self._arun(self._find_many(ended.missing))):
            await asyncio.sleep(pace.next(ended.missing[0]))
        return ended.in_order()

    # operations

    def _run(self, operation: Operation[T]) -> T:
        return self._store().run(operation)

    async def _arun(self, operation: Operation[T]) -> T:
        return await self._store().arun(operation)

    def _find(self, limit: int, before: int | None, filters: dict[str, Any]) -> Operation[JobList]:
        return self._store().find(selection(filters), Page(limit, before))

    def _get(self, job_id: str) -> Operation[JobList]:
        return self._store().find(Selection(ids=(job_id,)), Page(1, with_history=True))

    def _find_many(self, ids: Sequence[str]) -> Operation[JobList]:
        part = tuple(ids[:500])
        return self._store().find(Selection(ids=part), Page(len(part)))

    def _amend(
        self, jobs: Sequence[str | HasId], filters: dict[str, Any], order: Amendment, by: str
    ) -> Conversation[Acted]:
        if not jobs and not filters:  # cancel(*[]) must not mean everything
            raise BadRequest("Say which jobs are meant: their ids, or filters such as task='…', state='…'.")
        acted = Acted([], {})
        ids = tuple(dict.fromkeys(id_of(job) for job in jobs))
        usual = {} if ids else {"state": MEANT.get(type(order))}
        meant = selection({**usual, **filters})
        draft = yield from self._audit.begin(ORDERS[type(order)], _about(ids, filters, order), by)
        if ids:
            for start in range(0, len(ids), BATCH):
                part = replace(meant, ids=ids[start : start + BATCH])
                acted.note((yield self._store().amend(part, order, by=by, limit=BATCH)))
        else:
            yield from self._amend_matching(meant, order, by, acted)
        yield from self._audit.end(draft, changed=len(acted.changed), refused=len(acted.refused))
        self._store().ring()
        return acted

    def _amend_matching(
        self, meant: Selection, order: Amendment, by: str, acted: Acted
    ) -> Conversation[None]:
        """From new to old, part by part: one that was refused still matches, and must not be met again."""
        page: JobList = yield self._store().find(meant, Page(BATCH))
        while page:
            ids = tuple(job.id for job in page if job.queue not in meant.spares)
            if ids:
                acted.note((yield self._store().amend(replace(meant, ids=ids), order, by=by, limit=BATCH)))
            page = yield self._store().find(meant, Page(BATCH, before=page[-1].generation))


class Pace:
    """How long to wait before the next look, and when to give up."""

    def __init__(self, limit: timedelta | None) -> None:
        self._limit = limit
        self._deadline = None if limit is None else time.monotonic() + limit.total_seconds()
        self._step = FIRST_LOOK

    def next(self, job_id: str) -> float:
        """Seconds until the next look; ResultTimeout once there is no time left."""
        left = LAST_LOOK if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            raise ResultTimeout(job_id, self._limit or timedelta(0))
        self._step = min(self._step * 1.5, LAST_LOOK)
        return min(self._step, left)


class Ended:
    """The finished ones among the jobs somebody waits for."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = list(ids)
        self._jobs: dict[str, Job] = {}
        self.missing: list[str] = list(dict.fromkeys(ids))

    def take(self, seen: JobList) -> bool:
        """Note what has finished; True when nothing is missing any more."""
        asked = set(self.missing[:500])
        gone = asked - {job.id for job in seen}
        if gone:
            raise UnknownJob(sorted(gone)[0])
        self._jobs.update({job.id: job for job in seen if job.state in FINISHED})
        self.missing = [job_id for job_id in self.missing if job_id not in self._jobs]
        return not self.missing

    def in_order(self) -> list[Job]:
        """As they were asked for."""
        return [self._jobs[job_id] for job_id in self._ids]


def id_of(job: str | HasId) -> str:
    """A job's id from whatever names it."""
    return job if isinstance(job, str) else job.id


def _about(ids: Sequence[str], filters: Mapping[str, Any], order: Amendment) -> dict[str, Any]:
    """Whom an order was given to, for the audit."""
    about: dict[str, Any] = {
        name: list(_names(value)) if name in ("task", "state", "queue") else value
        for name, value in filters.items()
    }
    if ids:
        about |= {"jobs": len(ids), "ids": list(ids[:NAMED])}
    if isinstance(order, Postpone) and order.at is not None:
        about["at"] = order.at.isoformat()
    return about


def selection(filters: dict[str, Any]) -> Selection:
    """Filters as people write them, to the store's terms."""
    known = {"ids", "task", "state", "queue", "key", "error", "fingerprint"}
    unknown = set(filters) - known
    if unknown:
        raise TypeError(
            f"Jobs cannot be filtered by {sorted(unknown)[0]!r}. Filters: {', '.join(sorted(known))}."
        )
    return Selection(
        ids=tuple(filters.get("ids", ())),
        tasks=_names(filters.get("task")),
        states=tuple(_state(state) for state in _names(filters.get("state"))),
        queues=_names(filters.get("queue")),
        key=filters.get("key"),
        error=filters.get("error"),
        fingerprint=filters.get("fingerprint"),
    )


def _state(name: str) -> State:
    try:
        return State(name)
    except ValueError:
        raise BadRequest(f"No job is ever {name!r}. States: {', '.join(State)}.") from None


def _names(value: Any) -> tuple[str, ...]:
    """One name, a task, or several of either."""
    if value is None:
        return ()
    many = cast(Iterable[Any], value if isinstance(value, list | tuple | set | frozenset) else (value,))
    return tuple(one if isinstance(one, str) else one.name for one in many)


def _aware(at: datetime | None) -> datetime | None:
    if at is not None and at.utcoffset() is None:
        raise BadRequest(f"at={at!r} has no time zone. Use an aware datetime.")
    return at


def _only(job_id: str, found: JobList) -> Job:
    if not found:
        raise UnknownJob(job_id)
    return found[0]
