"""`app.reactions`: what follows which table, and an operator's hand on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from duly.audit import Audit
from duly.converse import Conversation, aconverse, converse
from duly.errors import BadRequest, DefinitionError, UnknownTask
from duly.job import HistoryLine, Job, State
from duly.jobs import Acted, Jobs
from duly.stores.changes import Changes, Choice, Standing
from duly.stores.contract import Page, Selection, Store

T = TypeVar("T")

SCHEMES: Final = ("sqlite", "postgresql", "postgres")
HISTORY: Final = 5
"""Runs of one document that `history` tells of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionView:
    """A reactive task as it stands."""

    task: str
    table: str
    state: str
    """"active", "new" before its triggers are installed, "parked" while its table cannot be followed."""
    note: str
    """Why it is parked."""
    matched: int
    """Rows known to match."""
    pending: int
    """Runs that wait."""
    skipped: int
    """Runs that found their row changed, gone or no longer matching, as long as they are kept."""
    is_reconciling: bool
    reconciled: int
    """Rows looked at by the reconciliation in progress, or by the last one."""
    reconciled_at: datetime | None


Views = list[ReactionView]
Lines = list[HistoryLine]


def check_url(url: str) -> None:
    """Refuse stores that have no tables to follow, before anybody waits for one."""
    scheme = urlsplit(url).scheme.partition("+")[0]
    if scheme not in SCHEMES:
        raise DefinitionError(
            "Reactive tasks need the jobs in the database of the tables they follow, sqlite:/// or "
            f"postgresql://, and {scheme}:// is none."
        )


def following(store: Store) -> Changes:
    """The store, if it can follow tables."""
    check_url(store.url)
    return cast(Changes, store)


class Reactions:
    """Every method has an async twin with a leading `a`."""

    def __init__(self, store: Callable[[], Store], jobs: Callable[[], Jobs]) -> None:
        self._store = store
        self._audit = Audit(store)
        self._jobs = jobs

    def list(self) -> Views:
        """Every reactive task that a worker has brought to the store, by name."""
        return self._hold(self._list())

    async def alist(self) -> Views:
        """The async twin of list."""
        return await self._ahold(self._list())

    def reconcile(self, task: Any = None, *, by: str = "") -> None:
        """Have workers look at every row of a task, or of all; they go on where others stop."""
        self._hold(self._reconcile(task, by))

    async def areconcile(self, task: Any = None, *, by: str = "") -> None:
        """The async twin of reconcile."""
        await self._ahold(self._reconcile(task, by))

    def foretell(self, task: Any) -> int:
        """How many rows a reconciliation would run now. Changes nothing."""
        return self._hold(self._foretell(task))

    async def aforetell(self, task: Any) -> int:
        """The async twin of foretell."""
        return await self._ahold(self._foretell(task))

    def retry(self, task: Any, *, by: str = "", **filters: Any) -> int:
        """Have rows run again: all, or by key, state, error (a part of its text) or where (SQL on it).

        A key is its value, or a tuple where several columns name a row.

        One that runs gets one more run afterwards. Answers how many rows were chosen.
        """
        return self._hold(self._retry(task, filters, by))

    async def aretry(self, task: Any, *, by: str = "", **filters: Any) -> int:
        """The async twin of retry."""
        return await self._ahold(self._retry(task, filters, by))

    def jobs(self, task: Any, **filters: Any) -> Sequence[Job]:
        """The job last planned for each row, newest first; chosen as for retry."""
        return self._hold(self._last_jobs(task, filters))

    async def ajobs(self, task: Any, **filters: Any) -> Sequence[Job]:
        """The async twin of jobs."""
        return await self._ahold(self._last_jobs(task, filters))

    def count(self, task: Any, **filters: Any) -> int:
        """How many rows with a job: all, or by key, state, error or where."""
        return len(self._hold(self._chosen(task, filters)))

    async def acount(self, task: Any, **filters: Any) -> int:
        """The async twin of count."""
        return len(await self._ahold(self._chosen(task, filters)))

    def cancel(self, task: Any, *, by: str = "", **filters: Any) -> Acted:
        """Cancel what waits for rows, and ask what runs to stop; chosen as for retry."""
        ids = self._hold(self._chosen(task, filters))
        return self._jobs().cancel(*ids, by=by) if ids else Acted([], {})

    async def acancel(self, task: Any, *, by: str = "", **filters: Any) -> Acted:
        """The async twin of cancel."""
        ids = await self._ahold(self._chosen(task, filters))
        return await self._jobs().acancel(*ids, by=by) if ids else Acted([], {})

    def history(self, task: Any, key: Any) -> Lines:
        """The last five runs of a row that are still kept, newest first."""
        return self._hold(self._history(task, key))

    async def ahistory(self, task: Any, key: Any) -> Lines:
        """The async twin of history."""
        return await self._ahold(self._history(task, key))

    # conversations

    def _hold(self, conversation: Conversation[T]) -> T:
        return converse(self._store(), conversation)

    async def _ahold(self, conversation: Conversation[T]) -> T:
        return await aconverse(self._store(), conversation)

    def _list(self) -> Conversation[Views]:
        store = following(self._store())
        standings: Sequence[Standing] = yield store.standings()
        views: Views = []
        for standing in standings:
            task = (standing.reaction.task,)
            pending = yield store.count(Selection(tasks=task, states=(State.WAITING,)))
            skipped = yield store.count(Selection(tasks=task, states=(State.SKIPPED,)))
            views.append(_view(standing, pending, skipped))
        return views

    def _reconcile(self, task: Any, by: str) -> Conversation[None]:
        store = following(self._store())
        known = yield from self._known(store)
        names = known if task is None else [_named(task, known)]
        yield from self._audit.note("reconcile", {"task": list(names)}, by)
        for name in names:
            yield store.reconcile(name)

    def _foretell(self, task: Any) -> Conversation[int]:
        store = following(self._store())
        name = _named(task, (yield from self._known(store)))
        return cast(int, (yield store.foretell(name)))

    def _retry(self, task: Any, filters: dict[str, Any], by: str) -> Conversation[int]:
        store = following(self._store())
        name = _named(task, (yield from self._known(store)))
        choice = yield from self._choice(store, name, filters)
        draft = yield from self._audit.begin("retry", {"task": name, **filters}, by)
        chosen: int = yield store.revisit(choice)
        yield from self._audit.end(draft, changed=chosen, refused=0)
        return chosen

    def _chosen(self, task: Any, filters: dict[str, Any]) -> Conversation[tuple[str, ...]]:
        store = following(self._store())
        name = _named(task, (yield from self._known(store)))
        return tuple((yield store.chosen((yield from self._choice(store, name, filters)))))

    def _last_jobs(self, task: Any, filters: dict[str, Any]) -> Conversation[Sequence[Job]]:
        ids = yield from self._chosen(task, filters)
        if not ids:
            return []
        return cast(Sequence[Job], (yield self._store().find(Selection(ids=ids), Page(len(ids)))))

    def _choice(self, store: Changes, name: str, filters: dict[str, Any]) -> Conversation[Choice]:
        return choice(name, filters, (yield from _spelled(store, name, filters.get("key"))))

    def _history(self, task: Any, key: Any) -> Conversation[Lines]:
        store = following(self._store())
        name = _named(task, (yield from self._known(store)))
        selection = Selection(tasks=(name,), key=(yield from _spelled(store, name, key)))
        jobs: Sequence[Job] = yield store.find(selection, Page(HISTORY, with_history=True))
        lines = [line for job in jobs for line in reversed(job.history) if line.started_at is not None]
        return lines[:HISTORY]

    def _known(self, store: Changes) -> Conversation[tuple[str, ...]]:
        standings: Sequence[Standing] = yield store.standings()
        return tuple(standing.reaction.task for standing in standings)


def _named(task: Any, known: Iterable[str]) -> str:
    name = task if isinstance(task, str) else str(task.name)
    if name not in known:
        raise UnknownTask(name, tuple(known))
    return name


def _spelled(store: Changes, task: str, key: Any) -> Conversation[str | None]:
    """The text by which a row is known; who gives text means that."""
    if key is None or isinstance(key, str):
        return key
    parts = tuple(cast(Iterable[Any], key)) if isinstance(key, tuple | list) else (key,)
    return cast(str, (yield store.name_row(task, parts)))


def choice(task: str, filters: dict[str, Any], key: str | None) -> Choice:
    """Which rows, from what was written."""
    unknown = set(filters) - {"key", "state", "error", "where"}
    if unknown:
        raise BadRequest(f"There is no filter {sorted(unknown)[0]!r}. Filters: key, state, error, where.")
    state = filters.get("state")
    states = () if state is None else (state,) if isinstance(state, str) else tuple(state)
    return Choice(
        task=task,
        key=key,
        states=tuple(State(one) for one in states),
        error=filters.get("error"),
        where=filters.get("where"),
    )


def _view(standing: Standing, pending: int, skipped: int) -> ReactionView:
    return ReactionView(
        task=standing.reaction.task,
        table=str(standing.reaction.table),
        state=str(standing.condition),
        note=standing.note,
        matched=standing.documents,
        pending=pending,
        skipped=skipped,
        is_reconciling=standing.is_scanning,
        reconciled=standing.scanned,
        reconciled_at=standing.reconciled_at,
    )
