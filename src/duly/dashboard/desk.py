"""Everything the pages, the API and the live stream may see: bounded looks at the engine, as values.

No look walks the whole store: lists are pages, and what must be counted is counted once in a while and
shared by everybody who watches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duly.bulk import is_meant
from duly.cli import checks
from duly.cli.checks import Finding, Level
from duly.cli.documents import switch_row
from duly.cli.redaction import Redaction
from duly.cli.status import Overview, look
from duly.cli.why import Condition, conclusion, reasons
from duly.dashboard.filters import Filters
from duly.dashboard.keeping import Aside, Kept
from duly.dashboard.timeline import Timeline, draw
from duly.job import FINISHED, HistoryLine, Job, State
from duly.stores.changes import Changes
from duly.stores.contract import Attendance, Census, Scope
from duly.stores.reports import Found

if TYPE_CHECKING:
    from duly.app import App
    from duly.audit import Deed
    from duly.pulse import Depth, Point
    from duly.reactions import ReactionView
    from duly.stores.reports import FailureGroup

PAGE: Final = 50
GUESSED_PAGES: Final = 100
"""Pages passed over on which every job was found by what is hidden of it: that there is one must not show."""
CHART: Final = timedelta(hours=1)
FEW: Final = 50_000
"""Finished jobs that are counted while a page is made; more are counted aside (a million takes 0.2 s)."""
STRETCH: Final = 1_000
"""Jobs that are looked at before it is asked whether a page has waited long enough."""
PATIENCE: Final = timedelta(milliseconds=100)
"""How long a page looks for jobs that fit; what is older is a click away."""
AGED: Final = timedelta(seconds=5)
"""A count older than this says so."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue at a glance."""

    name: str
    counts: Counter[State]
    late: timedelta | None
    """How late its oldest ready job is."""
    is_held: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of everything."""

    seen: Overview
    totals: Counter[State]
    queues: Sequence[QueueRow]
    tasks: dict[str, Counter[State]]
    alarms: Sequence[Finding]
    is_counted: bool = True
    """Whether the counts of finished jobs are there; they come soon where they are not."""
    finished_ago: timedelta | None = None
    """How old they are, where it is worth telling."""

    @property
    def late(self) -> timedelta:
        """The worst queue's."""
        return max((row.late for row in self.queues if row.late is not None), default=timedelta(0))

    def count(self, state: State) -> int | None:
        """Jobs in this state; None where they have not been counted yet."""
        return self.totals[state] if self.is_counted or state not in FINISHED else None

    @property
    def live_workers(self) -> list[Attendance]:
        """Those whose lease holds."""
        return [one for one in self.seen.workers if one.has_lease]


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first, and where the next page begins."""

    jobs: Sequence[Job]
    calls: Sequence[str]
    """Each job's arguments on one line, without secrets."""
    before: int | None


@dataclass(frozen=True, slots=True)
class JobView:
    """One job with everything that bears on it."""

    job: Job
    now: datetime
    call: Any
    is_known: bool
    result: Any
    context: Any
    progress: Any
    timeline: Timeline
    conditions: Sequence[Condition]
    sentence: str
    success: Job | None
    """The last job of the same task, and key if it has one, that went well; only for one that did not.

    None also where it lies further back than a page looks.
    """
    success_call: Any


class Desk:
    """What may be read."""

    def __init__(self, app: App, redaction: Redaction) -> None:
        self.app = app
        self.redaction = redaction
        self._summary: Kept[Summary] = Kept(self._sum_up, app.clock.boot)
        self._everything: Aside[tuple[float, Census]] = Aside(self._count, app.clock.boot)
        self._depths: Kept[Sequence[Depth]] = Kept(lambda: app.pulse.depths(past=CHART), app.clock.boot)
        self._pulse: Kept[Sequence[Point]] = Kept(lambda: app.pulse.series(past=CHART), app.clock.boot)

    def now(self) -> datetime:
        """The moment a page is made."""
        return self.app.clock.now()

    # everything

    def summary(self) -> Summary:
        """Counts, workers, holds and alarms, at most two seconds old."""
        return self._summary.get()

    def whole_summary(self) -> Summary:
        """The same with every count, for programs: they rather wait than do without."""
        if not self.summary().is_counted:
            self._everything.get()
            self._summary.forget()
        return self.summary()

    def forget(self) -> None:
        """After an order the next page shows what it did."""
        self._summary.forget()
        self._everything.forget()

    def _count(self) -> tuple[float, Census]:
        return self.app.clock.boot(), self.app.store.run(self.app.store.census())

    def _sum_up(self) -> Summary:
        census, ago = self._counted()
        seen = look(self.app, census)
        held = {switch.name for switch in seen.switches if switch.scope is Scope.QUEUE}
        by_queue = {**{name: Counter[State]() for name in sorted(held)}, **seen.by(1)}
        queues = [
            QueueRow(name, counts, _late(seen, name), name in held) for name, counts in by_queue.items()
        ]
        return Summary(
            seen,
            seen.total(),
            queues,
            seen.by(0),
            self._alarms(seen),
            is_counted=census.has_finished,
            finished_ago=ago if ago > AGED else None,
        )

    def _counted(self) -> tuple[Census, timedelta]:
        """Everything, and how old the counts of finished jobs are where these are many."""
        census = self.app.store.run(self.app.store.census(most=FEW))
        last = None if census.has_finished else self._everything.last()
        if last is None:
            return census, timedelta(0)
        counted_at, everything = last
        ended = {key: count for key, count in everything.jobs.items() if key[2] in FINISHED}
        ago = timedelta(seconds=self.app.clock.boot() - counted_at)
        return replace(census, jobs=ended | dict(census.jobs), has_finished=True), ago

    def _alarms(self, seen: Overview) -> list[Finding]:
        """Silence when all is well."""
        findings = [
            checks.workers(seen),
            checks.orphans(seen),
            checks.lag(seen),
            checks.stuck(self.app, seen),
            checks.held(seen),
        ]
        return [finding for finding in findings if finding.level is not Level.OK]

    def holds(self) -> list[dict[str, Any]]:
        """What stands still, by whose word."""
        return [switch_row(switch) for switch in self.summary().seen.switches]

    def reactions(self) -> Sequence[ReactionView]:
        """What follows tables; nothing where the store has none."""
        return self.app.reactions.list() if isinstance(self.app.store, Changes) else ()

    def pulse(self, task: str = "", queue: str = "") -> Sequence[Point]:
        """The last hour, minute by minute, of a task or a queue or of all."""
        if not task and not queue:
            return self._pulse.get()
        return self.app.pulse.series(past=CHART, task=task or None, queue=queue or None)

    def depths(self) -> Sequence[Depth]:
        """How deep the queues were in the last hour."""
        return self._depths.get()

    def failures(self) -> Sequence[FailureGroup]:
        """What goes wrong, by cause; the one that went wrong last comes first."""
        return self.redaction.groups(self.app.failures.list(limit=PAGE))

    def audit(self, *, before: int | None = None) -> Sequence[Deed]:
        """Who ordered what, newest first."""
        return self.app.audit.list(limit=PAGE, before=before)

    # jobs

    def search(self, text: str, filters: Filters, *, before: int | None = None) -> JobPage:
        """Jobs with a text in key, arguments or error, as far as one look reaches; `before` goes on.

        A job is found only by what may be seen of it: else guesses would bring hidden arguments to light.
        """
        return self._page(text, filters, before, PAGE)

    def shows(self, job: Job, text: str, filters: Filters) -> bool:
        """Whether a job can be found so by who sees no more of it than may be seen."""
        return self._is_found(self.redaction.job(job), text, filters)

    def _is_found(self, seen: Job, text: str, filters: Filters) -> bool:
        return has_error(seen, filters) and (not text or self._shows(seen, text))

    def _shows(self, job: Job, text: str) -> bool:
        call = json.dumps(self.redaction.call(job), ensure_ascii=False, separators=(",", ":"))
        return any(text.lower() in one.lower() for one in (job.key or "", job.error or "", call))

    def jobs(self, filters: Filters, *, before: int | None = None, limit: int = PAGE) -> JobPage:
        """A page of jobs; the engine's own only for who asks for their queue or task."""
        return self._page("", filters, before, limit)

    def _page(self, text: str, filters: Filters, before: int | None, limit: int) -> JobPage:
        """Stretch after stretch, until there is enough or the page has waited long enough for it."""
        words, wanted, guesses, begun = filters.words(), list[Job](), 0, self.app.clock.boot()
        while True:
            room = limit - len(wanted)
            found = self._stretch(text, words, before, room)
            seen = self.redaction.jobs(job for job in found.jobs if is_meant(job, words))
            shown = [job for job in seen if self._is_found(job, text, filters)]
            wanted, before = [*wanted, *shown], found.next
            if seen and not shown and len(found.jobs) == room:
                guesses += 1
                before = None if guesses == GUESSED_PAGES else before
            elif self.app.clock.boot() - begun > PATIENCE.total_seconds():
                break
            if before is None or len(wanted) == limit:
                break
        return JobPage(wanted, [self.redaction.call_text(job) for job in wanted], before)

    def _stretch(self, text: str, words: dict[str, Any], before: int | None, limit: int) -> Found:
        """The next jobs, as far as a stretch goes; those of one key are few, and some are not placed yet."""
        if text or "key" not in words:
            return self.app.jobs.search(text, limit=limit, before=before, depth=STRETCH, **words)
        jobs = self.app.jobs.list(limit=limit, before=before, **words)
        return Found(jobs, jobs[-1].generation if len(jobs) == limit else None)

    def job(self, job_id: str) -> JobView:
        """One job; UnknownJob if it is not there."""
        raw, now = self.app.jobs.get(job_id), self.now()
        found, job = reasons(self.app, raw), self.redaction.job(raw)
        success = self._last_success(job)
        return JobView(
            job=job,
            now=now,
            call=self.redaction.call(job),
            is_known=self.redaction.knows(job.task),
            result=self.redaction.text(job.result),
            context=self.redaction.text(job.context),
            progress=self.redaction.text(job.progress),
            timeline=draw(job, now),
            conditions=found.conditions if job.state not in FINISHED else (),
            sentence=conclusion(replace(found, job=job)),
            success=success,
            success_call=None if success is None else self.redaction.call(success),
        )

    def _last_success(self, job: Job) -> Job | None:
        if job.error is None or job.state is State.DONE:
            return None
        filters = Filters(task=(job.task,), state=("done",), key=job.key or "" if job.tick is None else "")
        found = self._stretch("", filters.words(), None, 1).jobs
        return self.app.jobs.get(found[0].id) if found else None


def has_error(job: Job, filters: Filters) -> bool:
    """A job is found by what may be seen of its error, or guesses would bring the rest to light."""
    return not filters.error or filters.error.lower() in (job.error or "").lower()


def last_run(job: Job) -> HistoryLine | None:
    """The last thing its history tells of a body that began."""
    return next((line for line in reversed(job.history) if line.started_at is not None), None)


def _late(seen: Overview, queue: str) -> timedelta | None:
    due = seen.census.oldest_due.get(queue)
    return None if due is None else max(seen.now - due, timedelta(0))
