"""The rules that are written twice say the same twice: every combination is asked in Lua and in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final

import pytest
from tests.servers_redis import connected_to, shared_url

from duly.clash import Placement, Scene, Stander, Window, place
from duly.job import Clash, Fence, Guard, Overlap, Request, Wish
from duly.lifecycle import (
    CRASH_CAP,
    GOES_ON,
    HISTORY_LINES,
    MOVES,
    Again,
    Crash,
    Defer,
    Done,
    Fail,
    Release,
    Skip,
    Standing,
    Stop,
    TryAgain,
    Verdict,
    conclude,
)
from duly.stores.contract import Settlement
from duly.stores.redis.moment import stamp
from duly.stores.redis.packing import packed, request_values, settlement_values
from duly.stores.redis.scripts import assembled
from duly.testing.clock import START

AT_ONCE: Final = 2000
NEXT: Final = timedelta(minutes=1)


def ask(parts: tuple[str, ...], program: str, questions: Sequence[Any]) -> list[Any]:
    """Answers of a Lua program that has the questions as `given`."""
    script = assembled(
        (
            "clock",
            "start",
        ),
        parts,
        program,
    )
    answers: list[Any] = []
    with connected_to(shared_url()) as client:
        for first in range(0, len(questions), AT_ONCE):
            portion = packed(questions[first : first + AT_ONCE])
            answers += json.loads(client.eval(script.text, 1, "{parity}:", "", "", portion))
    return answers


# --- place --------------------------------------------------------------------------------------

PLACE: Final = """
local clash, requests = need("clash", "requests")
local answers = {}
for place, case in ipairs(given) do
    local scene = case[2]
    scene.window = scene.window or nil
    local placement = clash.place(requests.read(case[1]), scene, case[3])
    placement.supersedes = placement.supersedes or {}
    placement.overtakes = placement.overtakes or {}
    placement.cancels = placement.cancels or {}
    answers[place] = placement
    placement.due = placement.due and whole(placement.due)
end
return cjson.encode(answers)
"""

LISTS: Final[list[tuple[Stander, ...]]] = [
    (),
    (Stander("same 1", "k", 1),),
    (Stander("other 1", "another", 1),),
    (Stander("same 1", "k", 1), Stander("same 2", "k", 2)),
    (Stander("other 1", "another", 1), Stander("same 2", "k", 2)),
    (Stander("same 1", "k", 1), Stander("other 2", "another", 2), Stander("none 3", None, 3)),
]
GUARDS: Final = (None, Guard(NEXT), Guard(NEXT, trailing=True))
WINDOWS: Final = (None, Window(START + NEXT, "accepted"), Window(START, "accepted"))


def requests() -> Iterator[Request]:
    for way, overlap, per_key, guard, key in product(Clash, Overlap, (0, 1, 2), GUARDS, ("k", None)):
        yield Request(
            id="new",
            task="t",
            arguments="",
            key=key,
            serial="s",
            clash=way,
            overlap=overlap,
            per_key=per_key,
            guard=guard,
        )


def scenes() -> Iterator[Scene]:
    for waiting, running, window, has_marker in product(LISTS, LISTS, WINDOWS, (False, True)):
        yield Scene(waiting, running, window, has_marker)


def scene_values(scene: Scene) -> dict[str, Any]:
    window = scene.window
    return {
        "waiting": [stander_values(one) for one in scene.waiting],
        "running": [stander_values(one) for one in scene.running],
        "window": (window and {"closes_at": stamp(window.until), "id": window.id}) or False,
        "has_marker": scene.has_marker,
    }


def stander_values(stander: Stander) -> dict[str, Any]:
    return {"id": stander.id} | ({} if stander.key is None else {"key": stander.key})


def placement_values(placement: Placement) -> dict[str, Any]:
    """As Lua tells it: absent and false are the same, and so are an empty list and an empty table."""
    return {
        "decision": str(placement.decision),
        "id": placement.id,
        "creates": placement.creates,
        "merges_into": placement.merges_into,
        "is_parked": placement.is_parked,
        "supersedes": list(placement.supersedes),
        "overtakes": list(placement.overtakes),
        "cancels": list(placement.cancels),
        "due": None if placement.due is None else str(stamp(placement.due)),
        "is_suppressed": placement.is_suppressed,
        "opens_window": placement.opens_window,
    }


def without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


@pytest.mark.parametrize("way", list(Clash))
def test_a_request_is_placed_as_duly_clash_says(way: Clash) -> None:
    cases = [(request, scene) for request in requests() if request.clash is way for scene in scenes()]
    questions = [[request_values(one), scene_values(scene), stamp(START)] for one, scene in cases]

    answers = ask(("clash", "requests"), PLACE, questions)

    assert len(answers) > 10_000
    for (request, scene), answer in zip(cases, answers, strict=True):
        expected = without_nothing(placement_values(place(request, scene, START)))
        assert without_nothing(answer) == expected, f"{request} in {scene}"


# --- conclude -----------------------------------------------------------------------------------

CONCLUDE: Final = """
local verdicts = need("verdicts")
local answers = {}
for place, case in ipairs(given) do
    local said, standing = case[1], case[2]
    local verdict = { event = said[4], reason = said[8] or "", error = said[9] or nil, counted = said[12] }
    for _, field in ipairs({ "superseded_by", "wish", "queued" }) do
        standing[field] = standing[field] or nil
    end
    answers[place] = { verdicts.conclude(verdict, standing) }
end
return cjson.encode(answers)
"""

VERDICTS: Final[list[Verdict]] = [
    Done(),
    Done("42", NEXT),
    Again(after=NEXT),
    Again(at=START),
    Again(error="cycle failed"),
    Stop(),
    Stop("boom"),
    TryAgain(NEXT, "boom"),
    Defer(NEXT),
    Release(),
    Release(NEXT, "deploy"),
    Crash("signal 9", counted=True),
    Crash("signal 9", counted=False),
    Fail("boom"),
    Fail("boom", reason="hard limit exceeded"),
    Skip("gone"),
]


def standings() -> Iterator[Standing]:
    ids = (None, "newer")
    for superseded_by, wish, queued, crashes, is_spent in product(
        ids, (None, *Wish), ids, range(4), (False, True)
    ):
        yield Standing(
            superseded_by=superseded_by, wish=wish, queued=queued, crashes=crashes, is_spent=is_spent
        )


def standing_values(standing: Standing) -> dict[str, Any]:
    return {
        "superseded_by": standing.superseded_by or False,
        "wish": standing.wish or False,
        "queued": standing.queued or False,
        "crashes": standing.crashes,
        "is_spent": standing.is_spent,
    }


def test_a_verdict_means_what_duly_lifecycle_says() -> None:
    cases = list(product(VERDICTS, standings()))
    fence = Fence("j", 1, "secret")
    questions = [[settlement_values(Settlement(fence, said)), standing_values(now)] for said, now in cases]

    answers = ask(("verdicts",), CONCLUDE, questions)

    for (verdict, standing), answer in zip(cases, answers, strict=True):
        told = conclude(verdict, standing)
        assert answer == [told.event, told.reason, str(told.answer)], f"{verdict} with {standing}"


# --- tables and numbers -------------------------------------------------------------------------


def test_every_move_is_the_same_and_no_other_exists() -> None:
    states = sorted({str(state) for state, _ in MOVES} | {str(state) for state in MOVES.values()})
    events = sorted({event for _, event in MOVES})
    questions = list(product(states, events))
    program = """
    local moves = {}
    for place, case in ipairs(given) do
        local is_legal, state = pcall(need("verdicts").move, case[1], case[2])
        moves[place] = is_legal and state or false
    end
    return cjson.encode(moves)
    """

    answers = ask(("verdicts",), program, questions)

    known = {(str(state), event): str(after) for (state, event), after in MOVES.items()}
    assert answers == [known.get(question, False) for question in questions]


def test_the_numbers_are_the_same() -> None:
    program = """
    local verdicts = need("verdicts")
    local events = {}
    for event in pairs(verdicts.GOES_ON) do
        events[#events + 1] = event
    end
    table.sort(events)
    return cjson.encode({ verdicts.CRASH_CAP, verdicts.HISTORY_LINES, events })
    """

    answer = ask(("verdicts",), program, [[]])

    assert answer == [CRASH_CAP, HISTORY_LINES, sorted(GOES_ON)]


@pytest.mark.parametrize("year", [1970, 2026, 2038, 2200])
def test_a_moment_loses_no_microsecond_on_the_way(year: int) -> None:
    moment = stamp(datetime(year, 6, 1, 12, 30, 15, 123_457, tzinfo=START.tzinfo))
    program = """
    local text = cmsgpack.unpack(cmsgpack.pack(given[1]))
    redis.call("ZADD", prefix .. "moments", text, "m")
    local back = redis.call("ZSCORE", prefix .. "moments", "m")
    redis.call("DEL", prefix .. "moments")
    return "[" .. whole(tonumber(back)) .. "]"
    """

    assert ask((), program, [moment]) == [moment]
