"""The harness itself, on Duly alone and with few jobs: that it counts what ran, and stops what it started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from benchmarks.contenders import DULY, SQLITE, Contender
from benchmarks.player import Broken, Stage, at_work
from benchmarks.servers import Postgres, Redis
from benchmarks.slots import SECOND, Slots

from benchmarks import works

FEW = Contender(DULY, SQLITE, "benchmarks.duly_adapter", 300)


def stage(folder: Path) -> Stage:
    """A file needs no servers."""
    nobody: Any = None
    return Stage(folder, cast(Postgres, nobody), cast(Redis, nobody))


@pytest.mark.slow
def test_a_drain_runs_every_job_once_and_ends_its_worker(tmp_path: Path) -> None:
    with at_work(FEW, Path(sys.executable), stage(tmp_path), 300) as player:
        player.prepare()
        player.call("fill", 0, 300)
        leader = player.start()

        ran = player.slots.wait(0, 300, at_most=20.0)

        assert ran == 300
        assert player.slots.twice(0, 300) == 0
        assert player.slots.rate(0, 300) > 0
    with pytest.raises(ProcessLookupError):
        os.kill(leader, 0)


@pytest.mark.slow
def test_calls_are_counted_over_all_clients(tmp_path: Path) -> None:
    with at_work(FEW, Path(sys.executable), stage(tmp_path), 100) as player:
        player.prepare()

        answer = player.call("clients", 0, 5, 10.0, 4)

        assert answer["amount"] == 20
        assert answer["rate"] > 0


@pytest.mark.slow
def test_a_system_that_breaks_is_told_with_its_last_words(tmp_path: Path) -> None:
    broken = Contender("Nobody", SQLITE, "benchmarks.peers.nobody", 10)
    missing = r"No module named 'benchmarks\.peers\.nobody'"

    with (
        at_work(broken, Path(sys.executable), stage(tmp_path), 10) as player,
        pytest.raises(Broken, match=missing),
    ):
        works.enqueue(player)


def test_a_rate_counts_from_when_every_worker_has_run_one(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", 4)
    for number, (when, session) in enumerate([(1, 7), (2, 7), (3, 8), (4, 7)]):
        slots.times[number] = when * SECOND
        slots.sessions[number] = session

    rate = slots.rate(0, 4)

    slots.close()
    assert rate == 1.0


def test_a_job_that_runs_twice_is_counted_and_keeps_its_first_stamp(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", 2)
    moments = iter((5, 9))
    stamp = slots.stamper(lambda: next(moments))

    stamp(1)
    stamp(1)

    assert (slots.ran(0, 2), slots.twice(0, 2), slots.stamps(0, 2)) == (1, 1, [5])
    slots.forget(2)
    assert slots.ran(0, 2) == 0
    slots.close()


def test_a_worker_that_is_killed_in_the_middle_of_a_stamp_leaves_none(tmp_path: Path) -> None:
    """A time without a session looked like one of another worker, and the drain as if it had not begun."""
    slots = Slots(tmp_path / "slots", 2)

    def killed() -> int:
        raise KeyboardInterrupt

    slots.stamper(lambda: 1, session=7)(0)
    with pytest.raises(KeyboardInterrupt):
        slots.stamper(killed, session=7)(1)

    assert slots.stamps(0, 2) == [1]
    assert list(slots.sessions) == [7, 7]
    slots.close()


def test_a_piece_of_work_is_cut_off_in_time(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", 2)
    slots.stamper()(0)

    ran = slots.wait(0, 2, at_most=0.05)

    slots.close()
    assert ran == 1
