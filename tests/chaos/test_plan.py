"""A seed is a plan."""

from __future__ import annotations

import pytest
from tests.chaos.plan import KINDS, Step, make_plan


def plan(seed: int, store: str = "redis", without: frozenset[str] = frozenset()) -> list[Step]:
    return make_plan(seed, store, 120.0, workers=3, kill_every=1.0, without=without)


def test_the_same_seed_makes_the_same_plan() -> None:
    assert plan(7) == plan(7)


def test_another_seed_makes_another_plan() -> None:
    assert plan(7) != plan(8)


def test_a_worker_is_killed_every_second() -> None:
    kills = [step.at for step in plan(7) if step.kind == "kill"]

    assert [int(at) for at in kills] == list(range(120))


@pytest.mark.parametrize("store", list(KINDS))
def test_every_kind_of_fault_comes_up(store: str) -> None:
    seen = {step.kind for seed in range(20) for step in plan(seed, store)}

    assert seen == {"kill", *KINDS[store]}


def test_what_a_machine_cannot_do_is_left_out() -> None:
    steps = plan(7, "sqlite", without=frozenset({"fill_disk", "step_clock"}))

    assert {"fill_disk", "step_clock"}.isdisjoint(step.kind for step in steps)


def test_every_fault_is_over_when_the_faults_are() -> None:
    assert all(step.at + step.seconds <= 120.001 for step in plan(7))


def test_faults_overlap() -> None:
    steps = [step for step in plan(7) if step.seconds]
    overlapping = [
        (first, second)
        for first in steps
        for second in steps
        if first is not second and first.at < second.at < first.at + first.seconds
    ]

    assert len(overlapping) > 10
