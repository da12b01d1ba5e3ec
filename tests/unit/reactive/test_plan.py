"""What a look at one row means: every branch, and what must hold whatever happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import codec
from duly.job import State
from duly.reactive.plan import (
    COUNTS,
    GONE,
    Kind,
    Plan,
    Record,
    Sight,
    Terms,
    Upheaval,
    decide,
    packed,
    request_for,
    sight_of,
    upheaval,
)
from duly.reactive.reaction import Evolution, Existing, Reaction
from duly.reactive.tables import Table

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def reaction(**fields: Any) -> Reaction:
    given: dict[str, Any] = {"task": "receipt", "table": Table(None, "orders"), **fields}
    return Reaction(**given)


def paid(seen: str = "a") -> Sight:
    return Sight(matches=True, seen=seen, values={"status": seen})


def known(seen: str | None = "a", state: State | None = State.DONE, **fields: Any) -> Record:
    return Record(seen=seen, is_matched=True, job="j1", job_state=state, **fields)


def test_a_row_that_matches_for_the_first_time_runs() -> None:
    plan = decide(None, paid(), reaction(), NOON)

    assert plan.run is Kind.CHANGED
    assert plan.values == {"status": "a"}
    assert plan.record is not None
    assert (plan.record.seen, plan.record.is_matched, plan.record.since) == ("a", True, NOON)


def test_a_row_that_never_matched_leaves_nothing() -> None:
    assert decide(None, Sight(matches=False), reaction(), NOON) == Plan(record=None)
    assert decide(None, None, reaction(), NOON) == Plan(record=None)


def test_a_row_that_nobody_knew_is_only_noted_when_existing_ones_are_ignored() -> None:
    plan = decide(None, paid(), reaction(), NOON, ignores=True)

    assert plan.run is None
    assert plan.record == Record(seen="a", is_matched=True)


@pytest.mark.parametrize("state", sorted(COUNTS))
def test_the_same_values_make_no_second_run(state: State) -> None:
    record = known("a", state)

    assert decide(record, paid("a"), reaction(), NOON) == Plan(record=record)


def test_a_job_that_was_pruned_had_ended_well() -> None:
    record = known("a", None)

    assert decide(record, paid("a"), reaction(), NOON) == Plan(record=record)


@pytest.mark.parametrize("state", [State.FAILED, State.SKIPPED, State.CANCELLED])
def test_a_run_that_came_to_nothing_is_run_again_at_the_next_look(state: State) -> None:
    assert decide(known("a", state), paid("a"), reaction(), NOON).run is Kind.CHANGED


def test_other_values_run_again() -> None:
    assert decide(known("a"), paid("b"), reaction(), NOON).run is Kind.CHANGED


def test_leaving_the_filter_cancels_what_waits_and_coming_back_runs_again() -> None:
    left = decide(known("a", State.WAITING), Sight(matches=False), reaction(), NOON)

    assert left.ends is State.CANCELLED
    assert left.run is None
    assert decide(left.record, paid("a"), reaction(), NOON).run is Kind.CHANGED


def test_leaving_the_filter_lets_a_run_go_on() -> None:
    assert decide(known("a", State.RUNNING), Sight(matches=False), reaction(), NOON).ends is None


def test_a_deleted_row_skips_what_waits() -> None:
    plan = decide(known("a", State.WAITING), None, reaction(), NOON)

    assert (plan.ends, plan.run) == (State.SKIPPED, None)
    assert plan.record is not None
    assert not plan.record.is_matched


def test_a_deletion_is_handed_over_once_with_the_last_values() -> None:
    wants = reaction(on_delete=True)
    before = decide(None, paid(), wants, NOON).record

    plan = decide(before, None, wants, NOON)

    assert (plan.run, plan.values) == (Kind.DELETED, {"status": "a"})
    assert plan.record is not None
    assert plan.record.seen == GONE
    assert decide(plan.record, None, wants, NOON).run is None


def test_a_deletion_whose_run_failed_is_handed_over_again() -> None:
    wants = reaction(on_delete=True)
    record = Record(seen=GONE, job="j", job_state=State.FAILED, told=packed({"status": "a"}))

    assert decide(record, None, wants, NOON).run is Kind.DELETED


def test_a_row_that_had_left_the_filter_is_deleted_in_silence() -> None:
    left = decide(known(), Sight(matches=False), reaction(on_delete=True), NOON).record

    assert decide(left, None, reaction(on_delete=True), NOON).run is None


def test_debounce_counts_from_the_last_change_up_to_max_wait() -> None:
    slow = reaction(debounce=10 * SECOND, max_wait=15 * SECOND)
    first = decide(None, paid("a"), slow, NOON)
    assert first.record is not None
    waiting = Record(seen="a", is_matched=True, job="j1", job_state=State.WAITING, since=first.record.since)

    assert first.due_in == 10 * SECOND
    assert decide(waiting, paid("b"), slow, NOON + 4 * SECOND).due_in == 10 * SECOND
    assert decide(waiting, paid("b"), slow, NOON + 8 * SECOND).due_in == 7 * SECOND
    assert decide(waiting, paid("b"), slow, NOON + 60 * SECOND).due_in == timedelta(0)


def test_the_wait_begins_anew_behind_a_run() -> None:
    slow = reaction(debounce=10 * SECOND, max_wait=15 * SECOND)
    running = known("a", State.RUNNING, since=NOON - 60 * SECOND)

    assert decide(running, paid("b"), slow, NOON).due_in == 10 * SECOND


records = st.one_of(
    st.none(),
    st.builds(
        Record,
        seen=st.sampled_from([None, "a", "b", GONE]),
        is_matched=st.booleans(),
        job=st.sampled_from([None, "j1"]),
        job_state=st.sampled_from([None, *State]),
        since=st.sampled_from([None, NOON - 5 * SECOND]),
    ),
)
rows = st.one_of(
    st.none(), st.builds(Sight, matches=st.booleans(), seen=st.sampled_from(["a", "b"]), values=st.just({}))
)
reactions = st.builds(
    reaction,
    on_delete=st.booleans(),
    debounce=st.sampled_from([timedelta(0), SECOND]),
    max_wait=st.just(10 * SECOND),
)


@given(records, rows, reactions)
def test_what_is_planned_is_not_planned_again(record: Record | None, row: Sight | None, by: Reaction) -> None:
    """Once written, and with its job waiting, a second look at the same row asks for nothing."""
    plan = decide(record, row, by, NOON)
    if plan.record is None:
        return
    waits = State.WAITING if plan.run else (None if plan.ends else plan.record.job_state)
    job = "j2" if plan.run else (None if plan.ends else plan.record.job)
    after = Record(
        seen=plan.record.seen,
        is_matched=plan.record.is_matched,
        job=job,
        job_state=waits,
        since=plan.record.since,
        told=plan.record.told,
    )

    again = decide(after, row, by, NOON)

    assert again.run is None
    assert again.ends is None


@given(records, rows, reactions)
def test_a_matching_row_is_dealt_with_or_planned(
    record: Record | None, row: Sight | None, by: Reaction
) -> None:
    """Nothing is lost: the record holds the row's values afterwards, with a run that counts for them."""
    plan = decide(record, row, by, NOON)

    if row is not None and row.matches:
        assert plan.record is not None
        assert plan.record.seen == row.seen
        assert plan.run is Kind.CHANGED or plan.record.counted == row.seen
    else:
        assert plan.run is not Kind.CHANGED
        assert plan.due_in == timedelta(0)


def test_the_job_carries_what_the_body_is_told() -> None:
    plan = decide(None, paid(), reaction(queue="mail", debounce=SECOND, max_wait=SECOND), NOON)

    request = request_for(
        reaction(queue="mail"), plan, key="17", parts=[17], terms=Terms(("id",), ("status",))
    )

    (facts,), _ = codec.unpack(request.arguments)
    assert (request.task, request.key, request.queue, request.delay) == ("receipt", "17", "mail", SECOND)
    assert facts["key"] == [17]
    assert facts["values"] == {"status": "a"}
    assert (facts["seen"], facts["kind"]) == ("a", "changed")


def test_values_too_large_to_travel_stay_behind() -> None:
    huge = Sight(matches=True, seen="a", values={"body": "x" * 300_000})
    plan = decide(None, huge, reaction(on_delete=True), NOON)

    request = request_for(reaction(), plan, key="17", parts=[17], terms=Terms(("id",), ("body",)))

    (facts,), _ = codec.unpack(request.arguments)
    assert facts["values"] is None
    assert plan.record is not None
    assert plan.record.told is None


def test_nulls_are_alike_and_differ_from_everything_else() -> None:
    assert sight_of(["a"], [None]) == sight_of(["a"], [None])
    assert sight_of(["a"], [None]) != sight_of(["a"], [""])
    assert sight_of(["a"], [0]) != sight_of(["a"], ["0"])
    assert sight_of(["a", "b"], [None, 1]) != sight_of(["a", "b"], [1, None])
    assert sight_of(["a"], [float("nan")]) == sight_of(["a"], [float("nan")])


def test_a_new_definition_says_what_must_be_looked_at_again() -> None:
    old = reaction(where="a")
    again: dict[str, Any] = {"where": "a", "version": 2}

    assert upheaval(None, old) is Upheaval.LOOK
    assert upheaval(None, reaction(existing=Existing.IGNORE)) is Upheaval.LOOK_QUIETLY
    assert upheaval(old, reaction(where="b")) is Upheaval.LOOK
    assert upheaval(old, reaction(where="a", debounce=SECOND)) is Upheaval.NOTHING
    assert upheaval(old, reaction(**again)) is Upheaval.NOTHING
    assert upheaval(old, reaction(**again, on_version_change=Evolution.REPROCESS_FAILED)) is Upheaval.LOOK
    assert upheaval(old, reaction(**again, on_version_change=Evolution.REPROCESS_ALL)) is Upheaval.RUN_ALL
