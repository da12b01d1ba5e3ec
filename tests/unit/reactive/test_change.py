"""What a body is told, and which rows it gets."""

from __future__ import annotations

import pytest

from duly import BadRequest, ConditionFailed
from duly.reactive.change import Change, Facts, Found, judged, outdated
from duly.reactive.plan import GONE, Kind

FACTS = Facts(key=(17,), values={"status": "paid"}, watch=("status",), seen="a")
THERE = Found(matches=True, seen="a", row={"id": 17, "status": "paid"})


def test_a_row_that_is_as_it_was_is_handed_over() -> None:
    assert judged(FACTS, THERE) == {"id": 17, "status": "paid"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "no longer there"),
        (Found(matches=False, seen="a", row={}), "no longer matches"),
        (Found(matches=True, seen="b", row={}), "has changed"),
    ],
)
def test_each_condition_is_named_when_it_fails(found: Found | None, words: str) -> None:
    with pytest.raises(ConditionFailed, match=words) as failure:
        judged(FACTS, found)

    assert "17" in str(failure.value)


def test_a_deletion_is_outdated_when_the_row_is_back() -> None:
    deleted = Facts(key=(17,), values=None, watch=(), seen=GONE, kind=Kind.DELETED)

    assert outdated(deleted, None) is None
    assert outdated(deleted, THERE) is not None
    assert outdated(FACTS, None) is not None


def test_a_change_made_by_hand_serves_a_test() -> None:
    change = Change(key=17, row={"id": 17, "status": "paid"})

    assert change.document(["status"]) == {"status": "paid"}
    assert change.values["status"] == "paid"
    with pytest.raises(ConditionFailed):
        Change(key=17, values={"status": "paid"}).document()


def test_values_that_could_not_travel_are_asked_for_in_vain() -> None:
    with pytest.raises(BadRequest, match="too large"):
        _ = Change(key=17).values
