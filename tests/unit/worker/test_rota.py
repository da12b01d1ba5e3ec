"""Schedules come first in every claim, and still the jobs that they make get their turn."""

from __future__ import annotations

from duly import Duly
from duly.worker.lanes import Lanes
from duly.worker.rota import Rota
from duly.worker.tempo import LARGEST_BATCH


def make_rota(*, schedules: int) -> Rota:
    app = Duly("memory://")

    @app.task(name="count")
    def count() -> None:
        pass

    for number in range(schedules):
        app.schedule(every="1s", name=f"s{number}")(count)
    return Rota(Lanes(app, None))


def asked(rota: Rota, *, room: int) -> tuple[bool, bool, int]:
    """Whether schedules and tasks are asked for, and how many."""
    lanes, limit = rota.next(room, now=0.0)
    return any(name != "count" for name in lanes), "count" in lanes, limit


def test_one_claim_asks_for_everything_while_there_is_room_for_it() -> None:
    rota = make_rota(schedules=3)

    for _ in range(3):
        assert asked(rota, room=10) == (True, True, 10)
        assert rota.note(bodies=4, schedules=3)


def test_a_crowd_of_schedules_takes_turns_with_tasks() -> None:
    rota = make_rota(schedules=30)
    asked(rota, room=10)
    rota.note(bodies=0, schedules=10)

    assert asked(rota, room=10) == (True, False, LARGEST_BATCH)
    assert not rota.note(bodies=0, schedules=20)
    assert asked(rota, room=10) == (False, True, 10)
    assert not rota.note(bodies=10, schedules=0)
    assert asked(rota, room=10) == (True, True, 10)


def test_a_claim_full_of_bodies_is_no_crowd_of_schedules() -> None:
    rota = make_rota(schedules=3)
    asked(rota, room=10)

    assert rota.note(bodies=10, schedules=0)
    assert asked(rota, room=10) == (True, True, 10)


def test_without_room_for_bodies_schedules_still_tick() -> None:
    rota = make_rota(schedules=3)

    assert asked(rota, room=0) == (True, False, LARGEST_BATCH)
    assert rota.note(bodies=0, schedules=3)
