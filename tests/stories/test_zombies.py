"""A worker cut off with a perpetual's run in hand: whatever it says when it wakes up changes nothing."""

from __future__ import annotations

import pytest
from tests.stories.arrange import Gate, OpenApp, events, in_state, until, working
from tests.stories.watch import NEW, STALE, Finish, Watch, due_in, go_on

from duly import Handle, State
from duly.testing import VirtualClock

LEASE = "1h"  # of virtual time: nobody loses it but by the test's hand, and no beat comes in between


class Zombie:
    """A's worker is cut off with A in hand: its lease runs out, and it knows nothing of it."""

    def __init__(self, open_app: OpenApp, clock: VirtualClock, finish: Finish = go_on) -> None:
        self.app = open_app(clock=clock, lease=LEASE)
        self.watch = Watch(self.app, finish=finish)
        self.clock = clock

    def lose_lease(self) -> None:
        self.clock.advance("2h")
        self.watch.settings = NEW

    def wake_up(self, a: Handle[None]) -> None:
        """A ends at last, and its worker tells the store."""
        before = self._refusals()
        self.watch.gate.open()
        until(lambda: self._refusals() > before)

    def _refusals(self) -> int:
        return self.app.store.run(self.app.store.census()).refused


def test_a_zombie_of_the_same_generation_does_not_win(open_app: OpenApp, clock: VirtualClock) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            c = zombie.watch.next_cycle()
            zombie.wake_up(a)

    job = zombie.app.jobs.get(a)
    assert (c.id, c.generation, c.epoch) == (a.id, a.generation, 2)
    assert (job.state, due_in(job, clock)) == (State.WAITING, NEW)
    assert events(job) == ["lease ran out", "again", "refused"]
    assert "epoch 1" in job.history[-1].note


@pytest.mark.parametrize("act", ["goes on", *STALE])
def test_a_zombie_that_wakes_while_its_successor_runs_does_not_win_either(
    open_app: OpenApp, clock: VirtualClock, act: str
) -> None:
    zombie = Zombie(open_app, clock, STALE.get(act, go_on))
    zombie.watch.second_gate = successor = Gate()

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            successor.reached()
            zombie.wake_up(a)
            meanwhile = zombie.app.jobs.get(a)
            successor.open()
            c = zombie.watch.next_cycle()

    assert (meanwhile.state, meanwhile.epoch) == (State.RUNNING, 2)
    assert (c.id, due_in(c, clock)) == (a.id, NEW)
    assert events(zombie.app.jobs.get(a)) == ["lease ran out", "refused", "again"]


@pytest.mark.parametrize("act", STALE)
def test_a_zombie_can_neither_stop_nor_fail_nor_retry_what_was_lent_again(
    open_app: OpenApp, clock: VirtualClock, act: str
) -> None:
    zombie = Zombie(open_app, clock, STALE[act])

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            zombie.watch.next_cycle()
            zombie.wake_up(a)

    job = zombie.app.jobs.get(a)
    assert (job.state, due_in(job, clock), job.error, job.attempt) == (State.WAITING, NEW, None, 0)


def test_an_old_run_does_not_bring_a_stopped_chain_back_when_its_record_is_gone(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            zombie.watch.next_cycle()
            a.cancel()
            zombie.app.jobs.delete(a)
            zombie.wake_up(a)

    assert zombie.app.jobs.count() == 0


def test_an_old_run_does_not_touch_a_fresh_chain_of_its_key(open_app: OpenApp, clock: VirtualClock) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            zombie.watch.next_cycle()
            zombie.app.jobs.delete(a)
            fresh = zombie.watch.change(replace=False)
            zombie.watch.next_cycle()
            zombie.wake_up(a)

    [job] = zombie.app.jobs.list()
    assert (job.id, job.state, due_in(job, clock)) == (fresh.id, State.WAITING, NEW)
    assert fresh.generation > a.generation


def test_a_zombie_that_was_replaced_meanwhile_is_not_lent_again(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        b = zombie.watch.change()
        zombie.lose_lease()
        with working(zombie.app):
            c = zombie.watch.next_cycle()
            older = in_state(zombie.app, a, "cancelled")
            zombie.wake_up(a)

    assert (c.id, due_in(c, clock)) == (b.id, NEW)
    assert (older.epoch, older.reason) == (1, f"superseded by {b.id}")
