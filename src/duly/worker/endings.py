"""The end of a run: what it means, what is written with it, and who is told afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from duly import context
from duly.events import Event, Events
from duly.job import Request
from duly.kinds.outcome import Effects, Ending
from duly.lifecycle import EVENTS, Fail, Settled, Verdict, error_of
from duly.run import decide, describe, log_context
from duly.stores.contract import Settlement
from duly.worker.failures import failure_of, hooks_for
from duly.worker.hand import Holding

log = logging.getLogger("duly.worker")


@dataclass(frozen=True, slots=True)
class Concluded:
    """A run's end. Whether it still counts is for the store to say, by its fence."""

    holding: Holding
    verdict: Verdict
    then: tuple[Request, ...] = ()


def judge(holding: Holding, effects: Effects, ending: Callable[[], Ending]) -> Verdict:
    """A policy that cannot be applied (`raise RetryAfter("soon")`) fails the job, not the worker."""
    task = holding.task
    try:
        return decide(task.options, task.cycle, holding.claim, ending(), effects)
    except Exception as error:
        return Fail(describe(error), "its end could not be judged")


def settlement_of(ended: Concluded) -> Settlement:
    """The verdict, with the requests that must be stored with it or not at all."""
    holding, verdict = ended.holding, ended.verdict
    then = (*ended.then, *hooks_for(holding, verdict))
    return Settlement(holding.claim.fence, verdict, holding.started_at, then)


def outcome_of(verdict: Verdict, answer: Settled) -> str:
    """One word for what became of a run; `events.Event` lists them."""
    return EVENTS[type(verdict)] if answer is Settled.SETTLED else str(answer)


def tell_end(events: Events, ended: Concluded, answer: Settled, seconds: float) -> None:
    """Log what a person should know, and tell whoever listens, in the context its request was made under."""
    with context.restored(ended.holding.claim.context):
        _log_end(ended, answer)
        if events.is_heard:
            events.emit(_event(ended, answer, seconds))


def _log_end(ended: Concluded, answer: Settled) -> None:
    claim, verdict = ended.holding.claim, ended.verdict
    if answer is not Settled.SETTLED:
        late = EVENTS[type(verdict)]
        log.warning(
            "job %s (%s): its late %s was refused", claim.id, claim.task, late, extra=log_context(claim)
        )
    elif (failure := failure_of(ended.holding, verdict)) is not None:
        log.error("job %s (%s) failed: %s", claim.id, claim.task, failure.error, extra=log_context(claim))


def _event(ended: Concluded, answer: Settled, seconds: float) -> Event:
    claim, kind, detail = ended.holding.claim, outcome_of(ended.verdict, answer), detail_of(ended.verdict)
    return Event(kind, claim.task, claim.id, claim.key, claim.attempt + 1, claim.epoch, seconds, detail)


def detail_of(verdict: Verdict) -> str:
    """A word about what went wrong: the last line of the error says most."""
    lines = (error_of(verdict) or "").strip().splitlines()
    return lines[-1] if lines else getattr(verdict, "reason", "") or getattr(verdict, "note", "")
