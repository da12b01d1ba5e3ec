"""Whether to try again after a failure, and when.

Pure on purpose: the caller brings the time and the random number, so a test can assert the exact moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias, cast, get_args

from duly.durations import LONGEST, Duration, describe, duration
from duly.errors import DefinitionError
from duly.ticks import Cron, next_tick

Backoff: TypeAlias = Literal["fixed", "linear", "exponential", "series", "cron"]

_GROWS: Final = frozenset({"linear", "exponential"})


@dataclass(frozen=True)
class Retry:
    """Which failures are worth another try, how often, and after how long.

    Delay after the n-th failure: `fixed` first; `linear` first x n and `exponential` first x factor^(n-1),
    both up to `cap`; `series` the n-th entry, the last one repeating; `cron` the next match.
    """

    on: type[BaseException] | tuple[type[BaseException], ...]
    """The failures that are tried again; anything else fails at once."""
    attempts: int | None = 5
    """Runs in all, the first included; None for no limit."""
    backoff: Backoff = "exponential"
    first: Duration = "10s"
    factor: float = 2.0
    cap: Duration = "1d"
    jitter: float | None = None
    """How much of the delay is left to chance, 0 to 1, so that crowds thin out: the wait lies between
    (1 - jitter) x delay and delay. Unless given, 1 where delays grow and 0 where they are written out."""
    within: Duration | None = None
    """No try later than this after the first failure of the streak."""
    series: Sequence[Duration] = ()
    cron: str | None = None
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        _check_filter(self.on)
        if self.attempts is not None and (type(self.attempts) is not int or self.attempts < 1):
            raise DefinitionError(
                f"attempts={self.attempts!r} must count at least the first run: 1 or more, or None."
            )
        if self.backoff not in get_args(Backoff):
            raise DefinitionError(
                f"backoff={self.backoff!r} is unknown. Use one of {', '.join(get_args(Backoff))}."
            )
        self._settle("jitter", self._checked_jitter())
        self._settle("first", duration(self.first, what="first"))
        self._settle("cap", duration(self.cap, what="cap"))
        self._settle("series", tuple(duration(each, what="series") for each in self.series))
        if self.within is not None:
            self._settle("within", duration(self.within, what="within", allow_zero=False))
        _check_growth(self)
        _check_plan(self)

    def _settle(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def _checked_jitter(self) -> float:
        if self.jitter is None:
            return 1.0 if self.backoff in _GROWS else 0.0
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise DefinitionError(
                f"jitter={self.jitter!r} is a share of the delay. Give a number from 0 to 1."
            )
        return float(self.jitter)


def next_try(
    policy: Retry | None,
    error: BaseException,
    *,
    attempt: int,
    first_failure: datetime,
    now: datetime,
    spread: float,
    asked: timedelta | None = None,
) -> datetime | None:
    """When to run again after the `attempt`-th run failed with `error`; None to give up.

    `spread` is a random number from 0 to 1. `asked` is a wait the failure itself asked for (Retry-After):
    it replaces the computed delay and the filter, but neither `attempts` nor `within`.
    """
    if policy is None or (asked is None and not isinstance(error, policy.on)):
        return None
    return next_grant(
        policy, attempt=attempt, first_failure=first_failure, now=now, spread=spread, asked=asked
    )


def next_grant(
    policy: Retry,
    *,
    attempt: int,
    first_failure: datetime,
    now: datetime,
    spread: float,
    asked: timedelta | None = None,
) -> datetime | None:
    """The same for a failure that no exception names, such as a hard limit: budget and delay, no filter."""
    if policy.attempts is not None and attempt >= policy.attempts:
        return None
    again = _moment(policy, attempt, now, spread) if asked is None else now + _clamped(asked)
    if again is None or (policy.within is not None and again > first_failure + duration(policy.within)):
        return None
    return again


def delay_after(policy: Retry, failures: int) -> timedelta:
    """The delay after that many failures in a row, before jitter; for `cron` see its own timetable."""
    first = duration(policy.first)
    match policy.backoff:
        case "linear":
            return _grown(first, failures, policy)
        case "exponential":
            return _grown(first, _power(policy.factor, failures - 1), policy)
        case "series":
            return duration(policy.series[min(failures, len(policy.series)) - 1])
        case "fixed" | "cron":
            return first


def _moment(policy: Retry, failures: int, now: datetime, spread: float) -> datetime | None:
    if policy.backoff == "cron" and policy.cron is not None:
        return next_tick(Cron(policy.cron, policy.timezone), now)
    return now + delay_after(policy, failures) * (1 - (policy.jitter or 0) * spread)


def _grown(first: timedelta, times: float, policy: Retry) -> timedelta:
    cap = duration(policy.cap)
    # Compared as floats: past the cap the product would overflow a timedelta.
    return cap if first.total_seconds() * times >= cap.total_seconds() else first * times


def _power(factor: float, exponent: int) -> float:
    try:
        return factor**exponent
    except OverflowError:
        return math.inf


def _clamped(asked: timedelta) -> timedelta:
    return min(max(asked, timedelta(0)), LONGEST)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_filter(on: object) -> None:
    chosen = cast(tuple[object, ...], on) if isinstance(on, tuple) else (on,)
    if not chosen:
        raise DefinitionError("on=() matches no failure. Name at least one exception, or leave retry out.")
    for each in chosen:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise DefinitionError(f"on={each!r} is not an exception class. Write Retry(on=ConnectionError).")


def _check_growth(policy: Retry) -> None:
    if not _is_number(policy.factor) or not 1 <= policy.factor < math.inf:
        raise DefinitionError(f"factor={policy.factor!r} would shrink the delays. Give 1 or more.")
    first, cap = duration(policy.first), duration(policy.cap)
    if policy.backoff not in _GROWS:
        return
    if first > cap:
        raise DefinitionError(f'first="{describe(first)}" is longer than cap="{describe(cap)}". Raise cap.')
    if not first:
        raise DefinitionError('first="0s" does not grow. Give it a length, or use backoff="fixed".')


def _check_plan(policy: Retry) -> None:
    """Each backoff has what it needs, and nothing is given that it would ignore."""
    if (policy.backoff == "series") != bool(policy.series):
        raise DefinitionError(
            f'series={policy.series!r} and backoff={policy.backoff!r} do not fit. Use backoff="series" '
            'with a series such as ["10s", "1m", "10m"], or neither.'
        )
    if (policy.backoff == "cron") != (policy.cron is not None):
        raise DefinitionError(
            f'cron={policy.cron!r} and backoff={policy.backoff!r} do not fit. Use backoff="cron" '
            'with a line such as "0 * * * *", or neither.'
        )
    if policy.cron is not None:
        Cron(policy.cron, policy.timezone)
