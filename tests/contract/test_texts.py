"""Texts with half of a character in them: what a run says is spelt out, what is asked for is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import Fields, claim_all, find, look, put, request, settle, start

from duly.lifecycle import Again, Crash, Fail, Release, Settled, Skip, Stop, TryAgain, Verdict
from duly.stores.contract import Selection, Store

HALF = "half \ud83d"
SPELT = "half \\ud83d"

VERDICTS: list[Verdict] = [
    Fail(HALF, HALF),
    TryAgain(timedelta(0), HALF),
    Again(error=HALF),
    Stop(HALF),
    Crash(HALF, counted=False),
    Release(note=HALF),
    Skip(HALF),
]


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)
def test_half_a_character_in_what_a_run_says_is_spelt_out(store: Store, verdict: Verdict) -> None:
    lent = start(store, request())

    assert settle(store, lent, verdict) is Settled.SETTLED

    job = look(store, lent.id)
    assert SPELT in f"{job.error} {job.reason} {job.history[-1].note}"


def test_an_error_is_found_by_the_text_that_was_raised(store: Store) -> None:
    lent = start(store, request())
    settle(store, lent, Fail(HALF))

    assert [job.id for job in find(store, Selection(error=HALF))] == [lent.id]


REFUSED: list[Fields] = [{"arguments": HALF}, {"context": HALF}, {"queue": HALF}, {"serial": HALF}]


@pytest.mark.parametrize("fields", REFUSED, ids=lambda fields: next(iter(fields)))
def test_half_a_character_in_a_request_is_refused_and_nothing_is_stored(store: Store, fields: Fields) -> None:
    with pytest.raises(ValueError, match="ud83d"):
        put(store, request(), request("key", **fields))

    assert claim_all(store) == []
