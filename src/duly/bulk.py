"""Orders to all jobs that match a filter: first shown, then given to exactly those that were shown.

A preview fixes its newest request and its moment; from then on a job can leave the set, by somebody's hand
or by running, but none can join it. So nothing has to be remembered between the two, and "retry 3 jobs" is
never 5. The command line and the dashboard both give their orders here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple

from duly.audit import Audit
from duly.errors import BadRequest
from duly.job import ENGINE_QUEUES, FINISHED, LIVE, Job, State
from duly.jobs import Acted, Jobs

BATCH: Final = 500
WALKED: Final = 2_000
"""So many are looked at one by one for a preview; beyond that the store counts."""
SAMPLE: Final = 10
TOLD_EVERY: Final = timedelta(seconds=1)
"""How old the audit's word of an order in progress may be."""
NAMED: Final = 1_000
"""So many refusals are named; of the others only their number is kept."""

Words = Mapping[str, Any]
"""Filters as `app.jobs` takes them."""


def _any(job: Job) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """What no store selects by: jobs are looked at one by one, and those that pass are meant."""

    text: str = ""
    """In key, arguments or error."""
    ended_by: datetime | None = None
    """Only what ended then, or before."""
    shows: Callable[[Job], bool] = _any
    """Whether somebody may see what a job was found by."""

    @property
    def is_open(self) -> bool:
        """Whether the store's own count tells how many pass."""
        return not self.text and self.ended_by is None

    def passes(self, job: Job, seen_at: datetime) -> bool:
        """Whether the job was so when the preview was made, and is one of those that are meant."""
        last = seen_at if self.ended_by is None else min(seen_at, self.ended_by)
        return was_so(job, last) and self.shows(job)

    def about(self) -> Words:
        """Its part of a line in the audit."""
        ended_by = self.ended_by and self.ended_by.isoformat()
        return {name: value for name, value in (("text", self.text), ("ended_by", ended_by)) if value}


OPEN: Final = Sieve()


class Impossible(BadRequest):
    """An order that is well put and cannot be for such jobs."""


class Verb(NamedTuple):
    """An order to jobs."""

    name: str
    past: str
    states: tuple[str, ...]
    """Whom it is for when a filter does not say."""
    possible: frozenset[State]
    """Whom it can be for at all."""


VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb("retry", "retried", ("failed",), FINISHED),
        Verb("cancel", "cancelled", ("running", "waiting"), LIVE),
        Verb("postpone", "postponed", ("waiting",), frozenset({State.WAITING})),
    )
}
"""What pages offer."""
DELETE: Final = Verb("delete", "deleted", tuple(sorted(FINISHED)), FINISHED)
"""Not among them: it cannot be taken back."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What an order would reach."""

    verb: Verb
    words: Words
    """As they will be applied: with the states the order is for."""
    count: int
    newest: int
    """The newest generation that is meant."""
    seen_at: datetime
    sample: Sequence[Job]
    sieve: Sieve = OPEN
    is_exact: bool = True
    """False where older jobs were not looked at: then there are at least so many."""

    def about(self) -> Words:
        """Whom the order was given to, for the audit."""
        return {**self.words, **self.sieve.about()}


@dataclass(slots=True)
class Outcome:
    """What an order did."""

    changed: int = 0
    refused: dict[str, str] = field(default_factory=dict[str, str])
    """Job id to the reason, of the first so many."""
    refusals: int = 0
    """How many there are of these."""

    def note(self, acted: Acted) -> None:
        """One more part of the order."""
        self.changed += len(acted.changed)
        self.refusals += len(acted.refused)
        room = NAMED - len(self.refused)
        self.refused.update(list(acted.refused.items())[: max(0, room)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A verb, who gives it, and when postponed jobs become ready."""

    verb: Verb
    by: str
    at: datetime | None = None

    def give(self, jobs: Jobs, ids: Sequence[str], conditions: Words) -> Acted:
        """To these jobs, as far as they still fit the conditions."""
        match self.verb.name:
            case "retry":
                return jobs.retry(*ids, by=self.by, **conditions)
            case "cancel":
                return jobs.cancel(*ids, by=self.by, **conditions)
            case "delete":
                return jobs.delete(*ids, by=self.by, **conditions)
            case _:
                return jobs.postpone(*ids, at=self.at, by=self.by, **conditions)


class Bulk:
    """The jobs of an application, many at a time."""

    def __init__(self, jobs: Jobs, audit: Audit, now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._audit = audit
        self._now = now

    def preview(
        self,
        verb: Verb,
        words: Words,
        sieve: Sieve = OPEN,
        *,
        looks: int | None = None,
        tell: Callable[[int], object] = lambda found: None,
    ) -> Preview:
        """How many jobs an order by filter would reach, and some of them; `tell` hears how many so far.

        After so many `looks` the number is what was found by then.
        """
        shown = Preview(verb, meant_by(verb, words), 0, self._newest(), self._now(), (), sieve)
        for number, page in enumerate(self._pages(shown)):
            if number == looks:
                return replace(shown, is_exact=False)
            sample = [*shown.sample, *page][:SAMPLE]
            shown = replace(shown, count=shown.count + len(page), sample=sample)
            tell(shown.count)
            if sieve.is_open and shown.count > WALKED:
                return replace(shown, count=self.count(shown.words))
        return shown

    def count(self, words: Words) -> int:
        """How many jobs match, the engine's own left out unless asked for."""
        total = self._jobs.count(**words)
        if names_lane(words):
            return total
        return total - self._jobs.count(**{**words, "queue": ENGINE_QUEUES})

    def give(
        self,
        order: Order,
        shown: Preview,
        tell: Callable[[Acted], object] = lambda acted: None,
        begin: Callable[[int | None], object] = lambda number: None,
    ) -> Outcome:
        """To what a preview showed, part by part; `tell` hears of each. One line in the audit.

        `begin` hears its number, None for an order without a name behind it.
        """
        outcome, pages = Outcome(), self._pages(shown)
        first = [] if shown.sieve.text else next(filter(None, pages), None)  # by text that can take long
        if first is None:
            return outcome
        with self._audit.one_order(order.verb.name, shown.about(), by=order.by) as draft:
            begin(draft.number)
            told_at = self._now()
            for page in chain([first], pages):
                acted = self._give_page(order, page, shown.words)
                outcome.note(acted)
                tell(acted)
                if self._now() - told_at >= TOLD_EVERY:
                    self._audit.tell(draft)
                    told_at = self._now()
        return outcome

    def _give_page(self, order: Order, page: list[Job], words: Words) -> Acted:
        return order.give(self._jobs, [job.id for job in page], words) if page else Acted([], {})

    def _pages(self, shown: Preview) -> Iterator[list[Job]]:
        """From new to old: one that was refused still matches, and must not be met again.

        One look each, also where it found nothing.
        """
        before: int | None = shown.newest + 1
        while before is not None:
            page, before = self._page(shown, before)
            yield [
                job for job in page if is_meant(job, shown.words) and shown.sieve.passes(job, shown.seen_at)
            ]

    def _page(self, shown: Preview, before: int) -> tuple[list[Job], int | None]:
        """Some jobs, and where to go on."""
        if shown.sieve.text:
            found = self._jobs.search(shown.sieve.text, limit=BATCH, before=before, **shown.words)
            return found.jobs, found.next
        page = self._jobs.list(limit=BATCH, before=before, **shown.words)
        return page, page[-1].generation if len(page) == BATCH else None

    def _newest(self) -> int:
        found = self._jobs.list(limit=1)
        return found[0].generation if found else 0


def named(verb: str) -> Verb:
    """An order by its name."""
    try:
        return VERBS[verb]
    except KeyError:
        raise BadRequest(f"There is no order {verb!r}. Orders: {', '.join(VERBS)}.") from None


def meant_by(verb: Verb, words: Words) -> Words:
    """The filters with the states the order is for."""
    meant = words if words.get("state") else {**words, "state": verb.states}
    impossible = sorted(set(map(str, meant["state"])) - set(map(str, verb.possible)))
    if impossible:
        possible = ", ".join(sorted(map(str, verb.possible)))
        raise Impossible(f"What is {impossible[0]!r} cannot be {verb.past}; only what is {possible}.")
    return meant


def was_so(job: Job, seen_at: datetime) -> bool:
    """Whether the job was already in its present state when the preview was made."""
    return job.finished_at is None or job.finished_at <= seen_at


def names_lane(words: Words) -> bool:
    """Whether somebody asked for a task or a queue by name; else the engine's own jobs are not meant."""
    return bool(words.get("task") or words.get("queue"))


def is_meant(job: Job, words: Words) -> bool:
    """The engine's clockwork is not the work people look for."""
    return names_lane(words) or job.queue not in ENGINE_QUEUES
