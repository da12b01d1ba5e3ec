"""The checks of `duly doctor`. Each looks at one thing and never raises: what it cannot see it reports."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from duly.cli.migrate import Migrating
from duly.cli.status import Overview, look
from duly.cli.target import refuse_missing_file
from duly.cli.words import counted, span
from duly.errors import DulyError
from duly.job import State
from duly.kinds import periodic
from duly.urls import masked

if TYPE_CHECKING:
    from duly.app import App

LATE_WARN, LATE_FAIL = timedelta(seconds=10), timedelta(minutes=5)
DISK_WARN, DISK_FAIL = 500 * 2**20, 20 * 2**20
CLOCK_SLACK = timedelta(seconds=5)
OLDEST_SANE = datetime(2025, 1, 1, tzinfo=UTC)


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    level: Level
    found: str
    remedy: str = ""


@runtime_checkable
class Described(Protocol):
    """A store with something to say about itself."""

    def describe(self) -> dict[str, str]: ...


def examine(app: App) -> list[Finding]:
    """All checks; those that need the store only if it answers."""
    first = store_answers(app)
    if first.level is Level.FAIL:
        return [first, disk(app)]
    seen = look(app)
    checks: list[Callable[[], Finding]] = [
        lambda: writable(app),
        lambda: schema(app),
        lambda: journal(app),
        lambda: disk(app),
        lambda: clock(app, seen),
        lambda: workers(seen),
        lambda: orphans(seen),
        lambda: lag(seen),
        lambda: stuck(app, seen),
        lambda: failures(seen),
        lambda: held(seen),
    ]
    if app.settings.outbox is not None:
        checks.append(lambda: outbox(app))
    return [first, *(_safely(check) for check in checks)]


def _safely(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except DulyError as error:
        return Finding("store", Level.FAIL, str(error))


# the store


def store_answers(app: App) -> Finding:
    """Reachable, and of a schema this code understands."""
    url = masked(app.settings.url)
    try:
        refuse_missing_file(app.settings.url)
        app.store.run(app.store.switches())
    except DulyError as error:
        return Finding("store", Level.FAIL, f"{url}: {error}", _store_remedy(app))
    return Finding("store", Level.OK, f"{url} answers")


def _store_remedy(app: App) -> str:
    if app.settings.url.startswith("sqlite:"):
        return "start a worker once, or say another store: --url, DULY_URL, or -a module:object"
    return "check that the server runs, the URL and the password: --url, DULY_URL, or -a module:object"


def writable(app: App) -> Finding:
    """A small record written and removed again."""
    store = app.store
    try:
        store.run(store.record("doctor", "probe", "written by duly doctor"))
        store.run(store.record("doctor", "probe", None))
    except DulyError as error:
        return Finding(
            "writing", Level.FAIL, str(error), "jobs can be neither enqueued nor settled until this works"
        )
    return Finding("writing", Level.OK, "a record was written and removed")


def schema(app: App) -> Finding:
    """Migrations that wait for somebody's word."""
    store = app.store
    if not isinstance(store, Migrating):
        return Finding("schema", Level.OK, "this store keeps none")
    pending = store.pending()
    if pending:
        remedy = "run `duly migrate` once no process runs older code"
        return Finding("schema", Level.WARN, f"pending: {', '.join(pending)}", remedy)
    version = store.describe().get("schema", "?") if isinstance(store, Described) else "?"
    return Finding("schema", Level.OK, f"version {version}, nothing pending")


def journal(app: App) -> Finding:
    """Whether committed writes could get lost here."""
    store = app.store
    facts = store.describe() if isinstance(store, Described) else {}
    if "appendfsync" in facts:
        return _append_only_file(facts["appendfsync"])
    if "sqlite" in facts:
        return _sqlite_journal(facts)
    return Finding("journal", Level.OK, "the server's own matter" if facts else "not a matter of this store")


def _sqlite_journal(facts: dict[str, str]) -> Finding:
    """SQLite's WAL-reset race loses writes in a file that others share."""
    found = ", ".join(f"{name} {facts[name]}" for name in ("sqlite", "journal", "synchronous"))
    if facts.get("exposed to it") == "yes":
        remedy = "use SQLite 3.51.3 or newer, or give Duly a file of its own: sqlite:///duly.db"
        return Finding(
            "journal", Level.FAIL, f"{found}; committed writes can be lost in a shared WAL file", remedy
        )
    if facts.get("wal-reset race") == "yes":
        found += "; this build has the WAL-reset race, the engine's own locking keeps clear of it"
    return Finding("journal", Level.OK, found)


_LOSS: Final = {
    "always": "every write is on disk before it is answered",
    "everysec": "a power cut may cost the writes of the last second",
    "no": "a power cut may cost the writes of the last half minute",
    "off": "without an append-only file a restart costs all since the last snapshot",
    "hidden": "the host does not show it: ask there which writes survive a power cut",
}


def _append_only_file(appendfsync: str) -> Finding:
    found = f"appendfsync {appendfsync}: {_LOSS.get(appendfsync, 'unknown')}"
    if appendfsync not in ("no", "off"):
        return Finding("journal", Level.OK, found)
    remedy = "CONFIG SET appendonly yes and appendfsync everysec, or always if no job may ever get lost"
    return Finding("journal", Level.WARN, found, remedy)


def disk(app: App) -> Finding:
    """Room to grow where the file lies."""
    if not app.settings.url.startswith("sqlite:"):
        return Finding("disk", Level.OK, "the server's own matter")
    from duly.stores.sqlite.address import parse

    folder = Path(parse(app.settings.url).path).parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(
            "disk", Level.FAIL, f"{folder}: {error}", "create the folder, or point the URL elsewhere"
        )
    level = Level.FAIL if free < DISK_FAIL else Level.WARN if free < DISK_WARN else Level.OK
    remedy = "" if level is Level.OK else f"free some space on the disk of {folder}"
    return Finding("disk", level, f"{free // 2**20:,} MB free", remedy)


def clock(app: App, seen: Overview) -> Finding:
    """A clock that stepped back, or two machines that disagree, show as records from the future."""
    remedy = "set the clock (NTP) on this machine and on those that enqueue or work"
    if seen.now < OLDEST_SANE:
        return Finding("clock", Level.FAIL, f"it is {seen.now.isoformat()} here", remedy)
    newest = [job.created_at for job in app.jobs.list(limit=1)]
    ahead = max([*newest, *(at for _, at, _ in seen.workers)], default=seen.now) - app.clock.now()
    if ahead > CLOCK_SLACK:
        return Finding("clock", Level.WARN, f"the newest record is {span(ahead)} in the future", remedy)
    return Finding("clock", Level.OK, "no record is from the future")


# workers and work


def workers(seen: Overview) -> Finding:
    """Somebody must be there when something waits."""
    live = [card for card, _, is_live in seen.workers if is_live]
    lost = len(seen.workers) - len(live)
    if not live:
        waits = seen.total()[State.WAITING]
        level = Level.FAIL if waits else Level.WARN
        return Finding(
            "workers",
            level,
            f"none is alive, {counted(waits, 'job')} waiting",
            "start one: duly worker module:app",
        )
    slots = sum(card.slots for card in live)
    versions = sorted({card.version for card in live if card.version})
    found = f"{counted(len(live), 'worker')} alive with {counted(slots, 'slot')}" + (
        f", {lost} lost" if lost else ""
    )
    if len(versions) > 1:
        return Finding("workers", Level.WARN, f"{found}, versions {', '.join(versions)}", "finish the deploy")
    return Finding("workers", Level.OK, found)


def orphans(seen: Overview) -> Finding:
    """Waiting work that no live worker would take."""
    live = [card for card, _, is_live in seen.workers if is_live]
    waiting = {
        (task, queue) for (task, queue, state), count in seen.jobs.items() if state is State.WAITING and count
    }
    unknown = sorted({task for task, _ in waiting if not any(task in card.tasks for card in live)})
    unserved = sorted(
        {queue for _, queue in waiting if not any(not card.queues or queue in card.queues for card in live)}
    )
    if not live or not (unknown or unserved):
        return Finding(
            "unknown work",
            Level.OK,
            "every waiting job has a worker that knows it" if live else "no workers to ask",
        )
    found = [f"task {name!r}" for name in unknown[:5]] + [f"queue {name!r}" for name in unserved[:5]]
    remedy = "start a worker whose code has these tasks and whose -q names these queues, or cancel the jobs"
    return Finding("unknown work", Level.FAIL, f"no live worker takes {', '.join(found)}", remedy)


def lag(seen: Overview) -> Finding:
    """How long the oldest ready job has been waiting."""
    if not seen.census.oldest_due:
        return Finding("lag", Level.OK, "nothing is overdue")
    queue, due = min(seen.census.oldest_due.items(), key=lambda item: item[1])
    late = seen.now - due
    level = Level.FAIL if late > LATE_FAIL else Level.WARN if late > LATE_WARN else Level.OK
    remedy = (
        "" if level is Level.OK else "start more workers, raise -c, or see `duly why` for one of the jobs"
    )
    where = "of the schedules" if queue == periodic.QUEUE else f"on queue {queue!r}"
    return Finding("lag", level, f"the oldest job {where} is {span(late)} late", remedy)


def stuck(app: App, seen: Overview) -> Finding:
    """Leases that ran out and were not taken over: recovery is the ordinary claim, so somebody must claim."""
    running = [job for job in app.jobs.list(state="running", limit=1000) if job.queue != periodic.QUEUE]
    expired = [job for job in running if job.ready_at is not None and job.ready_at < app.clock.now()]
    if not expired:
        return Finding("leases", Level.OK, f"{counted(len(running), 'job')} running, no lease has run out")
    anybody = any(live for _, _, live in seen.workers)
    oldest = min(expired, key=lambda job: job.ready_at or seen.now)
    found = (
        f"{counted(len(expired), 'job')} with a lease that ran out, the first {oldest.id} of {oldest.task!r}"
    )
    remedy = (
        "a live worker takes them over within a second" if anybody else "start a worker: it takes them over"
    )
    return Finding("leases", Level.WARN if anybody else Level.FAIL, found, remedy)


def failures(seen: Overview) -> Finding:
    """Jobs that wait for a person."""
    failed = seen.total()[State.FAILED]
    if not failed:
        return Finding("failures", Level.OK, "none")
    worst = max(seen.by(0).items(), key=lambda item: item[1][State.FAILED])[0]
    remedy = f"look: duly jobs --state failed --task {worst}; then: duly retry --state failed --task {worst}"
    return Finding("failures", Level.WARN, f"{counted(failed, 'failed job')}, most of {worst!r}", remedy)


def held(seen: Overview) -> Finding:
    """What somebody paused, perhaps long ago."""
    names = [switch.name.removeprefix(periodic.PREFIX) for switch in seen.switches if switch.until is None]
    if not names:
        return Finding("held", Level.OK, "nothing is paused")
    return Finding(
        "held", Level.WARN, f"paused: {', '.join(sorted(names))}", "duly resume NAME, if that is over"
    )


# the outbox


def outbox(app: App) -> Finding:
    """Whether what users commit reaches the store."""
    box, url = app.outbox, masked(app.settings.outbox or "")
    assert box is not None
    try:
        refuse_missing_file(app.settings.outbox or "")
        seen = box.run(box.backlog())
    except DulyError as error:
        return Finding("outbox", Level.FAIL, f"{url}: {error}", "users cannot commit jobs until this works")
    found = f"{counted(seen.waiting, 'request')} waiting, the oldest for {span(seen.oldest)}"
    if seen.aside:
        remedy = "mend the reason, or delete the row from the table slip of the outbox and enqueue it again"
        return Finding("outbox", Level.WARN, f"{found}; {seen.aside} set aside: {seen.reason}", remedy)
    level = Level.FAIL if seen.oldest > LATE_FAIL else Level.WARN if seen.oldest > LATE_WARN else Level.OK
    remedy = "" if level is Level.OK else "start a worker with this outbox: workers carry it to the store"
    return Finding("outbox", level, found if seen.waiting else f"{url} is empty", remedy)
