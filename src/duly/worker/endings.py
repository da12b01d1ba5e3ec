"""The end of a run: what it means, what is written with it, and who is told afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import repeat
from typing import Any, Final, cast

from duly import context, run
from duly.errors import DulyError, StoreError
from duly.events import Event, Events
from duly.ids import spread
from duly.job import Delivery, Request
from duly.kinds.outcome import Effects, Ending
from duly.lifecycle import EVENTS, Done, Fail, Release, Settled, Verdict, error_of
from duly.run import Run, decide, log_context, raised, returned
from duly.stores.contract import Settlement, Store
from duly.tracebacks import describe
from duly.worker.failures import failure_of, hooks_for
from duly.worker.hand import Halt, Holding

log = logging.getLogger("duly.worker")


@dataclass(slots=True)
class Concluded:
    """A run's end. Whether it still counts is for the store to say, by its fence.

    A value, though not frozen: that would cost every run most of a microsecond.
    """

    holding: Holding
    verdict: Verdict
    then: tuple[Request, ...] = ()
    answer: Settled | None = None
    """The store's, where the run ended in a transaction of its own: nothing is left to settle."""
    meant: Verdict | None = None
    """Settled in a transaction of which nobody knows whether it was committed; else `verdict` counts."""
    cause: BaseException | None = None
    """What the body raised."""
    has_returned: bool = False

    @property
    def effects(self) -> Effects:
        """What the body asked for."""
        run = self.holding.run
        return Effects() if run is None else run.effects

    @property
    def has_idled(self) -> bool:
        """The database ended the body's transaction because it heard nothing for too long."""
        error = self.cause
        while error is not None and getattr(error, "sqlstate", None) != "25P03":
            error = getattr(error, "orig", None) or error.__cause__
        return error is not None


DONE: Final = Done()
"""The end of most runs: one value for all of them, which whoever settles can tell by its identity."""


def returned_with(holding: Holding, run: Run, value: Any) -> Concluded:
    """The body came back."""
    task = holding.task
    if task.cycle is None and task.options.keep_result is None and not run.has_asked:
        return Concluded(holding, DONE, (), None, None, None, True)  # noqa: FBT003  half the price of by name
    verdict = judge(holding, run.effects, lambda: returned(task.options, value))
    return Concluded(holding, verdict, tuple(run.effects.requests), has_returned=True)


def raised_with(holding: Holding, run: Run, error: BaseException, now: datetime) -> Concluded:
    """The body raised."""
    claim, options = holding.claim, holding.task.options
    verdict = judge(holding, run.effects, lambda: raised(options, claim, error, now=now, spread=spread()))
    return Concluded(holding, verdict, tuple(run.effects.requests), cause=error)


def halted(holding: Holding, run: Run, error: BaseException, note: str) -> Concluded:
    """The body was stopped from outside."""
    return Concluded(holding, handed_back(holding, note), tuple(run.effects.requests), cause=error)


def judge(holding: Holding, effects: Effects, ending: Callable[[], Ending]) -> Verdict:
    """A policy that cannot be applied (`raise RetryAfter("soon")`) fails the job, not the worker."""
    task = holding.task
    try:
        return decide(task.options, task.cycle, holding.claim, ending(), effects)
    except Exception as error:
        return failed(holding, describe(error), "its end could not be judged")


def failed(holding: Holding, error: str, reason: str) -> Verdict:
    """A failure the body had no part in."""
    return run.failed(holding.task.options, holding.task.cycle, holding.claim, error, reason)


def undecodable(holding: Holding, error: DulyError) -> Verdict:
    """Arguments nobody can rebuild."""
    return failed(holding, str(error), run.UNDECODABLE)


def handed_back(holding: Holding, note: str) -> Verdict:
    """What an unfinished run settles with: nothing is counted, unless nobody may run it a second time."""
    if holding.task.options.delivery is Delivery.AT_MOST_ONCE and holding.has_begun:
        return failed(holding, f"the run was ended by its worker ({note})", "interrupted, outcome unknown")
    return Release(note=note)


def settlement_of(ended: Concluded, *, is_conditional: bool = False) -> Settlement:
    """The verdict, with the requests that must be stored with it or not at all."""
    holding, verdict = ended.holding, ended.verdict
    is_plain = verdict is DONE and not is_conditional
    return Settlement(
        holding.fence,
        verdict,
        holding.started_at,
        ended.then if is_plain else (*ended.then, *hooks_for(holding, verdict)),
        is_conditional=is_conditional,
        generation=holding.claim.generation,
    )


def settlements_of(ended: Sequence[Concluded | Settlement]) -> list[Settlement]:
    """Of a batch. Most end in one and the same way, and are made in one sweep: the store waits for it."""
    if not all([item.verdict is DONE for item in ended]):  # noqa: C419  a generator costs more
        return [item if isinstance(item, Settlement) else settlement_of(item) for item in ended]
    concluded = cast("Sequence[Concluded]", ended)  # schedules go on, and are never done
    holdings = [item.holding for item in concluded]
    fences, started = [one.fence for one in holdings], [one.started_at for one in holdings]
    then, generations = [item.then for item in concluded], [one.claim.generation for one in holdings]
    columns = zip(
        fences, repeat(DONE), started, then, repeat(None), repeat(object=False), generations, strict=False
    )
    return list(map(_settled, columns))


_settled: Final[Callable[[Sequence[object]], Settlement]] = partial(cast(Any, tuple).__new__, Settlement)
"""Of all its fields: `_make` would count them each time."""


def settle_alone(store: Store, worker: str, settlement: Settlement) -> Settled:
    """One end that no store takes must not cost the others theirs: it is recorded as a failure."""
    try:
        return store.run(store.settle(worker, [settlement]))[0]
    except StoreError:
        raise
    except Exception as error:
        verdict = Fail(describe(error), "its end could not be stored")
        plain = Settlement(settlement.fence, verdict, settlement.started_at)
        return store.run(store.settle(worker, [plain]))[0]


def outcome_of(verdict: Verdict, answer: Settled, halt: Halt | None = None) -> str:
    """One word for what became of a run; `events.Event` lists them."""
    if answer is not Settled.SETTLED:
        return str(answer)
    return str(halt) if halt is Halt.CANCELLED else EVENTS[type(verdict)]


def tell_end(events: Events, ended: Concluded, answer: Settled, seconds: float) -> None:
    """Log what a person should know, and tell whoever listens, in the context its request was made under."""
    with context.restored(ended.holding.claim.context):
        _log_end(ended, answer)
        if events.hears(outcome_of(ended.verdict, answer, ended.holding.halt)):
            events.emit(_event(ended, answer, seconds))


def _log_end(ended: Concluded, answer: Settled) -> None:
    claim, verdict = ended.holding.claim, ended.verdict
    if answer is not Settled.SETTLED:
        late = EVENTS[type(verdict)]
        # A run that was stopped for its lost lease has been told of, with others in one line.
        level = logging.DEBUG if ended.holding.halt is Halt.LOST else logging.WARNING
        log.log(
            level,
            "job %s (%s): its late %s was refused",
            claim.id,
            claim.task,
            late,
            extra=log_context(claim),
        )
    elif ended.holding.halt is not Halt.CANCELLED and (failure := failure_of(ended.holding, verdict)):
        log.error("job %s (%s) failed: %s", claim.id, claim.task, failure.error, extra=log_context(claim))


def _event(ended: Concluded, answer: Settled, seconds: float) -> Event:
    claim, detail = ended.holding.claim, detail_of(ended.verdict)
    kind = outcome_of(ended.verdict, answer, ended.holding.halt)
    return Event(
        kind,
        claim.task,
        claim.id,
        claim.key,
        claim.attempt + 1,
        claim.epoch,
        seconds if ended.holding.started_at is not None else None,
        detail,
        claim.queue,
        ended.holding.wait,
    )


def detail_of(verdict: Verdict) -> str:
    """A word about what went wrong: the last line of the error says most."""
    lines = (error_of(verdict) or "").strip().splitlines()
    return lines[-1] if lines else getattr(verdict, "reason", "") or getattr(verdict, "note", "")
