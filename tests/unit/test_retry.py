"""A retry comes at the moment its policy says, and never past its limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import DefinitionError
from duly.retry import Retry, next_try

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def waits(policy: Retry, failures: int, *, spread: float = 0.0) -> list[float]:
    """Seconds waited after each of so many failures in a row."""
    seconds: list[float] = []
    for attempt in range(1, failures + 1):
        again = next_try(policy, OSError(), attempt=attempt, first_failure=NOON, now=NOON, spread=spread)
        assert again is not None
        seconds.append((again - NOON).total_seconds())
    return seconds


def test_a_fixed_delay_stays_the_same() -> None:
    assert waits(Retry(on=OSError, attempts=9, backoff="fixed", first="5s"), 4, spread=0.7) == [5, 5, 5, 5]


def test_a_linear_delay_grows_by_its_first() -> None:
    assert waits(Retry(on=OSError, attempts=9, backoff="linear", first="5s", cap="18s"), 5) == [
        5,
        10,
        15,
        18,
        18,
    ]


def test_an_exponential_delay_doubles_up_to_the_cap() -> None:
    policy = Retry(on=OSError, attempts=99)

    seconds = waits(policy, 20)

    assert seconds[:6] == [10, 20, 40, 80, 160, 320]
    assert seconds[13:15] == [81_920, 86_400]
    assert seconds[-1] == 86_400


def test_a_series_repeats_its_last_delay() -> None:
    policy = Retry(on=OSError, attempts=9, backoff="series", series=["1s", 5, timedelta(minutes=1)])

    assert waits(policy, 5, spread=1.0) == [1, 5, 60, 60, 60]


def test_a_cron_backoff_waits_for_the_next_match_in_its_zone() -> None:
    policy = Retry(on=OSError, backoff="cron", cron="0 3 * * *", timezone="Europe/Paris")

    assert waits(policy, 2, spread=0.5) == [14 * 3600, 14 * 3600]


@pytest.mark.parametrize(
    ("jitter", "spread", "seconds"), [(1.0, 0.25, 7.5), (1.0, 1.0, 0), (0.2, 1.0, 8), (0, 0.9, 10)]
)
def test_jitter_shortens_the_delay_by_its_share(jitter: float, spread: float, seconds: float) -> None:
    assert waits(Retry(on=OSError, jitter=jitter), 1, spread=spread) == [seconds]


def test_growing_delays_are_fully_jittered_by_default() -> None:
    assert waits(Retry(on=OSError), 1, spread=0.5) == [5]
    assert waits(Retry(on=OSError, backoff="linear"), 1, spread=0.5) == [5]


def give_up_or_try(
    policy: Retry | None, error: BaseException | None = None, **changes: Any
) -> datetime | None:
    situation: dict[str, Any] = {"attempt": 1, "first_failure": NOON, "now": NOON, "spread": 0.0}
    return next_try(policy, error or OSError(), **situation | changes)


def test_without_a_policy_the_first_failure_is_final() -> None:
    assert give_up_or_try(None) is None
    assert give_up_or_try(None, asked=timedelta(seconds=5)) is None


def test_a_failure_the_policy_does_not_name_is_final() -> None:
    policy = Retry(on=(OSError, KeyError))

    assert give_up_or_try(policy, ValueError()) is None
    assert give_up_or_try(policy, KeyError()) is not None
    assert give_up_or_try(policy, FileNotFoundError()) is not None


def test_attempts_count_all_runs() -> None:
    policy = Retry(on=OSError, attempts=3)

    assert give_up_or_try(policy, attempt=2) is not None
    assert give_up_or_try(policy, attempt=3) is None
    assert give_up_or_try(Retry(on=OSError, attempts=1)) is None


def test_no_try_comes_later_than_within_after_the_first_failure() -> None:
    policy = Retry(on=OSError, attempts=None, backoff="fixed", first="10s", within="1m")

    assert give_up_or_try(policy, attempt=6, now=NOON + timedelta(seconds=50)) == NOON + timedelta(seconds=60)
    assert give_up_or_try(policy, attempt=6, now=NOON + timedelta(seconds=50.001)) is None


def test_a_wait_that_was_asked_for_replaces_delay_and_filter_but_no_limit() -> None:
    policy = Retry(on=KeyError, attempts=3, within="1h")

    assert give_up_or_try(policy, asked=timedelta(minutes=7), spread=0.9) == NOON + timedelta(minutes=7)
    assert give_up_or_try(policy, asked=timedelta(minutes=61)) is None
    assert give_up_or_try(policy, asked=timedelta(minutes=7), attempt=3) is None


@pytest.mark.parametrize("asked", [timedelta.min, timedelta.max])
def test_an_absurd_wish_is_brought_into_range(asked: timedelta) -> None:
    again = give_up_or_try(Retry(on=OSError), asked=asked)

    assert again is not None
    assert NOON <= again < NOON + timedelta(days=40_000)


@pytest.mark.parametrize("backoff", ["fixed", "linear", "exponential"])
@pytest.mark.parametrize("factor", [1, 1.0001, 2.0, 1e300])
def test_the_ten_thousandth_failure_overflows_nothing(backoff: Any, factor: float) -> None:
    policy = Retry(on=OSError, attempts=None, backoff=backoff, factor=factor, jitter=0)

    again = give_up_or_try(policy, attempt=10_000)

    assert again is not None
    assert NOON < again <= NOON + DAY


@given(
    st.sampled_from(["fixed", "linear", "exponential"]),
    st.integers(1, 10_000),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(1, 10),
)
def test_every_delay_lies_between_its_jittered_bounds(
    backoff: Any, attempt: int, jitter: float, spread: float, factor: float
) -> None:
    policy = Retry(on=OSError, attempts=None, backoff=backoff, jitter=jitter, factor=factor)

    longest, again = (
        give_up_or_try(policy, attempt=attempt),
        give_up_or_try(policy, attempt=attempt, spread=spread),
    )

    assert longest is not None
    assert again is not None
    assert (longest - NOON) * (1 - jitter) - timedelta(microseconds=1) <= again - NOON <= longest - NOON


@pytest.mark.parametrize(
    ("definition", "culprit"),
    [
        ({"attempts": 0}, "attempts=0"),
        ({"attempts": -1}, "attempts=-1"),
        ({"attempts": 2.5}, "attempts=2.5"),
        ({"attempts": True}, "attempts=True"),
        ({"on": ()}, r"on=\(\)"),
        ({"on": "OSError"}, "on='OSError'"),
        ({"on": (OSError, int)}, "on=<class 'int'>"),
        ({"on": [OSError]}, "on="),
        ({"backoff": "random"}, "backoff='random'"),
        ({"factor": 0.5}, "factor=0.5"),
        ({"factor": float("nan")}, "factor=nan"),
        ({"factor": float("inf")}, "factor=inf"),
        ({"factor": "2"}, "factor='2'"),
        ({"jitter": "full"}, "jitter='full'"),
        ({"jitter": 1.5}, "jitter=1.5"),
        ({"jitter": float("nan")}, "jitter=nan"),
        ({"first": "-1s"}, "first='-1s'"),
        ({"first": "soon"}, "first='soon'"),
        ({"first": "2d"}, 'first="2d" is longer than cap="1d"'),
        ({"first": 0}, 'first="0s" does not grow'),
        ({"cap": "10"}, "cap='10'"),
        ({"within": 0}, "within=0"),
        ({"backoff": "series"}, r"series=\(\)"),
        ({"series": ["1s"]}, "backoff='exponential'"),
        ({"backoff": "series", "series": ["1s", "x"]}, "series='x'"),
        ({"backoff": "cron"}, "cron=None"),
        ({"backoff": "cron", "cron": "99 * * * *"}, r"cron='99 \* \* \* \*'"),
        ({"backoff": "cron", "cron": "@daily", "timezone": "Mars"}, "timezone='Mars'"),
        ({"cron": "@daily"}, "backoff='exponential'"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_where_it_is_written(
    definition: dict[str, Any], culprit: str
) -> None:
    options: dict[str, Any] = {"on": OSError, **definition}

    with pytest.raises(DefinitionError, match=culprit):
        Retry(**options)


def test_policies_that_mean_the_same_are_equal() -> None:
    assert Retry(on=OSError, first="1m", jitter=1) == Retry(on=OSError, first=60)
    assert hash(Retry(on=OSError, backoff="series", series=[1])) == hash(
        Retry(on=OSError, backoff="series", series=("1s",))
    )
