"""The checker can fail: every invariant has a history that breaks it, and one like it that does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.chaos.checker.history import NEVER, Body, History, Loan, Row
from tests.chaos.checker.judge import CHECKS, judge, sizes
from tests.chaos.checker.reading import read
from tests.chaos.checker.witness import Check, Witness, smallest
from tests.chaos.histories.case import Case
from tests.chaos.histories.cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.invariant}: {case.broken}")
def test_a_broken_history_is_found(case: Case) -> None:
    found = judge(case.bad)

    assert case.invariant in {witness.invariant for witness in found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.invariant}: not {case.broken}")
def test_a_sound_history_passes_for_that_invariant(case: Case) -> None:
    found = judge(case.good)

    assert [witness.text() for witness in found if witness.invariant == case.invariant] == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_has_a_history_that_it_refuses(check: Check) -> None:
    assert any(list(check(case.bad)) for case in CASES)


def test_an_empty_history_breaks_nothing() -> None:
    assert judge(History()) == []


def test_the_smallest_witness_of_each_invariant_is_shown() -> None:
    loan = Loan(id="j", epoch=1)
    found = [
        Witness("Fencing", "long", (loan, loan)),
        Witness("Fencing", "short", (loan,)),
        Witness("NoLoss", "x"),
    ]

    assert [witness.says for witness in smallest(found)] == ["short", "x"]


def test_a_witness_tells_its_events_in_the_order_of_time() -> None:
    late, early = Loan(id="late", epoch=2, called=9.0), Loan(id="early", epoch=1, called=1.0)

    text = Witness("Fencing", "why", (late, early)).text()

    assert text.index("early") < text.index("late")


# --- from files -----------------------------------------------------------------------------------


def write(folder: Path, process: str, *events: Mapping[str, object], tail: str = "") -> None:
    text = "".join(json.dumps({"wall": 0.0, "pid": 1, **event}) + "\n" for event in events)
    (folder / f"{process}.1.jsonl").write_text(text + tail, encoding="utf-8")


ENQUEUE = {"kind": "enqueue", "call": "n1", "op": "a", "task": "quick", "digest": "d", "wishes": {"key": "k"}}


def test_a_request_with_its_answer_is_acknowledged(tmp_path: Path) -> None:
    answer = {"id": "j", "generation": 4, "decision": "created"}
    write(
        tmp_path,
        "p0",
        {**ENQUEUE, "phase": "call", "at": 1.0},
        {**ENQUEUE, "phase": "ok", "at": 1.5, **answer},
    )

    (asked,) = read(tmp_path).asked

    assert (asked.id, asked.key, asked.called, asked.answered, asked.generation) == ("j", "k", 1.0, 1.5, 4)


@pytest.mark.parametrize("tail", ["", '{"kind": "enqueue", "phase": "o'])
def test_a_request_whose_caller_was_killed_is_unknown(tmp_path: Path, tail: str) -> None:
    write(tmp_path, "p0", {**ENQUEUE, "phase": "call", "at": 1.0}, tail=tail)

    (asked,) = read(tmp_path).asked

    assert (asked.is_acknowledged, asked.answered) == (False, NEVER)


def test_a_request_that_raised_is_unknown_and_not_failed(tmp_path: Path) -> None:
    lost = {**ENQUEUE, "phase": "unknown", "at": 2.0, "error": "StoreUnavailable"}
    write(tmp_path, "p0", {**ENQUEUE, "phase": "call", "at": 1.0}, lost)

    (asked,) = read(tmp_path).asked

    assert not asked.is_acknowledged


def test_a_verdict_without_an_answer_may_have_been_taken(tmp_path: Path) -> None:
    end = {"fence": ["j", 1, "n"], "verdict": "done", "after": 0, "counted": False}
    write(tmp_path, "w0-1", {"kind": "settle", "phase": "call", "call": "c", "at": 1.0, "ends": [end]})

    (settle,) = read(tmp_path).settles

    assert (settle.answer, settle.may_be_taken, settle.is_taken) == ("unknown", True, False)


def test_a_body_of_a_killed_process_has_no_end(tmp_path: Path) -> None:
    start = {
        "kind": "start", "at": 1.0, "id": "j", "epoch": 1, "task": "slow", "key": None, "generation": 1,
        "op": "a", "digest": "d", "attempt": 1, "tick": None, "token": "j-0",
    }  # fmt: skip
    write(tmp_path, "w0-1", start, {"kind": "alive", "at": 1.5, "id": "j", "epoch": 1})

    (body,) = read(tmp_path).bodies

    assert (body.last_sign, body.ended, body.outcome) == (1.5, None, None)


def test_a_history_without_its_last_dump_is_not_judged(tmp_path: Path) -> None:
    write(tmp_path, "p0", {**ENQUEUE, "phase": "call", "at": 1.0})

    assert not read(tmp_path).is_complete


def test_sizes_say_how_much_was_judged() -> None:
    text = sizes(History(last=[Row(id="j")], bodies=[Body(id="j", epoch=1)]))

    assert "jobs 1 (done 1)" in text
    assert "runs 1" in text
