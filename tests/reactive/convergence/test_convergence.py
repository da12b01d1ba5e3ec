"""A slice of the convergence run on each store, and a judgement that can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.chaos.crew import ROOT
from tests.reactive.convergence.judge import judge, read

SLICE: Final = ("--seconds", "4", "--documents", "30", "--writers", "8", "--rate", "3")
FIRST: Final = {"key": 1, "revision": 1, "row": ["paid", 10], "effects": 0}


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, boot time and the death of parents")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_every_document_is_dealt_with_as_it_last_was(store: str, tmp_path: Path) -> None:
    words = ("--store", store, "--seed", "5", "--keep", str(tmp_path / "run"), *SLICE)
    command = [sys.executable, "-m", "tests.reactive.convergence", *words]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def run(task: str, job: str, total: int, epoch: int = 1) -> list[dict[str, Any]]:
    who = {"task": task, "id": job, "epoch": epoch, "key": 1}
    return [
        {"kind": "start", "values": {"status": "paid", "total": total}, **who},
        {"kind": "saw", "status": "paid", "total": total, **who},
        {"kind": "end", **who},
    ]


def ended(task: str, job: str, generation: int, epoch: int = 1) -> dict[str, Any]:
    order = {"generation": generation, "epoch": epoch, "attempt": 0}
    return {"kind": "job", "id": job, "task": task, "key": 1, "state": "done", "events": [], **order}


def sound() -> list[dict[str, Any]]:
    """Two versions of one document, each dealt with once by each task."""
    second = {"key": 1, "revision": 2, "row": ["paid", 20], "effects": 1}
    return [
        {"kind": "commit", "changes": [FIRST]},
        *run("receipt", "a", 10),
        *run("book", "b", 10),
        {"kind": "commit", "changes": [second]},
        *run("receipt", "c", 20),
        *run("book", "d", 20),
        {"kind": "rested", "is_quiet": True},
        *[ended("receipt", "a", 1), ended("book", "b", 2), ended("receipt", "c", 3), ended("book", "d", 4)],
        {"kind": "row", "key": 1, "row": ["paid", 20]},
        {"kind": "effect", "key": 1, "total": 10},
        {"kind": "effect", "key": 1, "total": 20},
    ]


def lose_the_last_run(events: list[dict[str, Any]]) -> None:
    events[:] = [event for event in events if event.get("id") != "c"]


def see_what_was_never_committed(events: list[dict[str, Any]]) -> None:
    events[2]["total"] = 15


def act_on_another_version(events: list[dict[str, Any]]) -> None:
    events[9]["total"] = 10


def run_once_too_often(events: list[dict[str, Any]]) -> None:
    events += [*run("receipt", "e", 20), ended("receipt", "e", 5)]


def run_again_for_no_reason(events: list[dict[str, Any]]) -> None:
    events += run("receipt", "c", 20, epoch=2)


def commit_an_effect_late(events: list[dict[str, Any]]) -> None:
    events[7]["changes"][0]["effects"] = 0


def book_twice(events: list[dict[str, Any]]) -> None:
    events.append({"kind": "effect", "key": 1, "total": 20})


def lose_a_commit(events: list[dict[str, Any]]) -> None:
    events[7]["changes"][0]["revision"] = 3


def never_rest(events: list[dict[str, Any]]) -> None:
    events[14]["is_quiet"] = False


Doctor = Callable[[list[dict[str, Any]]], None]
DOCTORED: Final[dict[Doctor, str]] = {
    lose_the_last_run: "CONVERGE",
    see_what_was_never_committed: "PHANTOM",
    act_on_another_version: "STALE",
    run_once_too_often: "TOO MANY",
    run_again_for_no_reason: "TWICE",
    commit_an_effect_late: "STALE EFFECT",
    book_twice: "EFFECT",
    lose_a_commit: "HISTORY",
    never_rest: "REST",
}


def judged(events: list[dict[str, Any]], folder: Path) -> list[str]:
    lines = [json.dumps({"at": at, **event}) for at, event in enumerate(events)]
    (folder / "runner.1.jsonl").write_text("\n".join(lines))
    return judge(read(folder))


def test_a_sound_history_is_found_sound(tmp_path: Path) -> None:
    assert judged(sound(), tmp_path) == []


@pytest.mark.parametrize("doctor", DOCTORED, ids=lambda one: one.__name__)
def test_a_doctored_history_is_found_out(doctor: Doctor, tmp_path: Path) -> None:
    events = sound()
    doctor(events)

    found = {one.partition(":")[0] for one in judged(events, tmp_path)}

    assert DOCTORED[doctor] in found, found
