"""Every change of state, in one table; and what a verdict means when the world has moved on.

Pure: stores ask `conclude` what to write and write it. The diagram in the docs and the CHECK
constraints of the stores are drawn from `MOVES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from duly.errors import IllegalMove
from duly.fingerprints import fingerprint, fingerprint_or_none
from duly.job import State, Wish

WAITING, RUNNING, DONE, FAILED, CANCELLED, SKIPPED = (
    State.WAITING,
    State.RUNNING,
    State.DONE,
    State.FAILED,
    State.CANCELLED,
    State.SKIPPED,
)

MOVES: Final = {
    (WAITING, "claim"): RUNNING,
    (WAITING, "cancel"): CANCELLED,
    (WAITING, "supersede"): CANCELLED,
    (WAITING, "expire"): SKIPPED,
    (WAITING, "overtake"): SKIPPED,  # a later tick of the same schedule took its place
    (WAITING, "postpone"): WAITING,
    (RUNNING, "claim"): RUNNING,  # the lease ran out: another worker takes over
    (RUNNING, "done"): DONE,
    (RUNNING, "again"): WAITING,
    (RUNNING, "stop"): DONE,
    (RUNNING, "retry"): WAITING,
    (RUNNING, "defer"): WAITING,
    (RUNNING, "release"): WAITING,
    (RUNNING, "crash"): WAITING,
    (RUNNING, "fail"): FAILED,
    (RUNNING, "interrupt"): FAILED,  # at_most_once: nobody knows how far the body came
    (RUNNING, "skip"): SKIPPED,
    (RUNNING, "cancel"): CANCELLED,
    (RUNNING, "supersede"): CANCELLED,
    (RUNNING, "absorb"): CANCELLED,  # a request queued behind it takes its retry over
    (DONE, "revive"): WAITING,
    (FAILED, "revive"): WAITING,
    (CANCELLED, "revive"): WAITING,
    (SKIPPED, "revive"): WAITING,
}


def move(state: State, event: str) -> State:
    """The state after `event`, or IllegalMove."""
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMove(state, event) from None


class Settled(StrEnum):
    """The store's answer to a verdict."""

    SETTLED = "settled"
    LOST = "lost"
    SUPERSEDED = "superseded"
    BUSY = "busy"


# --- verdicts: what a run says when it ends -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """The body returned. `result` is packed text, kept until `keep_result` has passed."""

    result: str | None = None
    keep_result: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """A perpetual's next cycle, at a time or after a wait; with `error` the cycle that ends had failed."""

    at: datetime | None = None
    after: timedelta = timedelta(0)
    error: str | None = None
    fingerprint: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Stop:
    """A perpetual ends itself and leaves a marker."""

    error: str | None = None
    fingerprint: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The body failed and its policy grants another attempt."""

    after: timedelta
    error: str
    fingerprint: str | None = field(default=None, compare=False, repr=False)
    """The error's, where `named` has found it already; `fingerprint_of` knows it in any case."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The body asked to wait: no attempt counted, a deferral is."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class Release:
    """Handed back unfinished (deploy, shutdown, not started): nothing is counted."""

    after: timedelta = timedelta(0)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Crash:
    """The process running the body died. In isolation it counts; before that it only makes a suspect."""

    evidence: str
    counted: bool
    after: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Fail:
    """The body failed and will not be tried again."""

    error: str
    reason: str = "failed"
    fingerprint: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Skip:
    """The run found nothing to do: its condition no longer holds."""

    reason: str


Verdict = Done | Again | Stop | TryAgain | Defer | Release | Crash | Fail | Skip

EVENTS: Final[dict[type[Verdict], str]] = {
    Done: "done",
    Again: "again",
    Stop: "stop",
    TryAgain: "retry",
    Defer: "defer",
    Release: "release",
    Crash: "crash",
    Fail: "fail",
    Skip: "skip",
}
CRASH_CAP: Final = 3
"""Deaths in isolation after which a job is quarantined as failed."""

HISTORY_LINES: Final = 100
"""A job that starts another cycle keeps its newest lines: a perpetual must not grow for ever."""

GOES_ON: Final = frozenset({"again", "retry", "defer", "release", "crash"})
"""Events after which the same job waits for another run."""
UNASKED: Final = frozenset({"retry", "release", "crash"})
"""Those that would start the same work over without its body having asked for it."""


# --- what a verdict means now -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What happened to a job while it ran."""

    superseded_by: str | None = None
    wish: Wish | None = None
    queued: str | None = None
    """The id of a request that waits behind this run for the same key."""
    crashes: int = 0
    """Deaths in isolation so far."""
    is_spent: bool = False
    """An at-most-once body had started: whatever happened to it, it must not start a second time."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the store writes: an event of MOVES, the words for it, and the answer to the worker."""

    event: str
    reason: str
    answer: Settled


def conclude(verdict: Verdict, standing: Standing) -> Conclusion:
    """Design §3.1's table: one row per verdict, one column per thing that may have happened meanwhile."""
    event = EVENTS[type(verdict)]
    if standing.superseded_by is not None:
        return Conclusion("supersede", f"superseded by {standing.superseded_by}", Settled.SUPERSEDED)
    if standing.wish in (Wish.CANCEL, Wish.DELETE):
        return Conclusion("cancel", "cancelled while running", Settled.SETTLED)
    if standing.is_spent and event in UNASKED:
        return Conclusion("interrupt", "interrupted, outcome unknown", Settled.SETTLED)
    if isinstance(verdict, Crash) and verdict.counted and standing.crashes + 1 >= CRASH_CAP:
        return Conclusion("fail", "crashed too often", Settled.SETTLED)
    if standing.queued is not None and event in GOES_ON:
        return _yield_to(standing.queued, verdict)
    return Conclusion(event, _reason(verdict), Settled.SETTLED)


def _yield_to(queued: str, verdict: Verdict) -> Conclusion:
    if isinstance(verdict, Again):
        ended = "fail" if verdict.error is not None else "done"
        return Conclusion(ended, f"yielded to {queued}", Settled.SETTLED)
    return Conclusion("absorb", f"absorbed by {queued}", Settled.SETTLED)


GIST: Final = 500
"""Characters: a job that is tried again a hundred times must not grow with each of them."""


def legible(text: str) -> str:
    """What a run says may hold halves of characters, which no store can write: they are spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _reason(verdict: Verdict) -> str:
    match verdict:
        case Fail(reason=reason) | Skip(reason=reason):
            return legible(reason)
        case Crash(evidence=evidence):
            return legible(f"crashed: {evidence}")
        case Release(note=note):
            return legible(note)
        case TryAgain(error=error):
            return gist(legible(error))
        case _:
            return ""


def gist(error: str) -> str:
    """What an error says without the frames of its traceback: a line of history keeps no more of a retry."""
    said = error.rpartition("\n  ")[2].partition("\n")[2] or error
    return said[:GIST]


def error_of(verdict: Verdict) -> str | None:
    """The error text a verdict carries, if any."""
    match verdict:
        case Fail(error=error) | TryAgain(error=error):
            return legible(error)
        case Again(error=error) | Stop(error=error):
            return None if error is None else legible(error)
        case Crash(evidence=evidence):
            return legible(f"crashed: {evidence}")
        case _:
            return None


def named(verdict: Verdict) -> Verdict:
    """The verdict with the fingerprint of its error, for whoever is not in a hurry.

    It takes 20 microseconds and more: where the body ran they cost nobody else, at the settle everybody.
    """
    if isinstance(verdict, Fail | TryAgain | Again | Stop) and verdict.error is not None:
        return replace(verdict, fingerprint=fingerprint(legible(verdict.error)))
    return verdict


def fingerprint_of(verdict: Verdict) -> str | None:
    """The name of the error a verdict carries, if any."""
    name: str | None = getattr(verdict, "fingerprint", None)
    return fingerprint_or_none(error_of(verdict)) if name is None else name


def wait_of(verdict: Verdict, now: datetime) -> datetime:
    """When a job that goes on is ready again, by the store's clock."""
    match verdict:
        case Again(at=at) if at is not None:
            return at
        case (
            Again(after=after)
            | TryAgain(after=after)
            | Defer(after=after)
            | Release(after=after)
            | Crash(after=after)
        ):
            return now + after
        case _:
            return now
