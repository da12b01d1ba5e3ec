"""Leases and locks count in boot time, and only in the boot they were given in."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.unit.sqlite_operations.arrange import LEASE, SECOND, job, lend, request
from tests.unit.sqlite_operations.driver import PlainStore

from duly.stores.contract import Grip
from duly.testing import VirtualClock


def test_a_stepped_wall_clock_ends_no_lease(store: PlainStore, clock: VirtualClock) -> None:
    store.run(store.put([request()]))
    lend(store, "w1")

    clock.step_wall(timedelta(hours=1))

    assert lend(store, "w2") == []


def test_a_restarted_machine_has_ended_every_lease(tmp_path: Path, clock: VirtualClock) -> None:
    before = PlainStore.create(tmp_path / "duly.db", clock)
    wanted = request()
    before.run(before.put([wanted]))
    lend(before, "w1")
    before.close()
    after = PlainStore(tmp_path / "duly.db", clock, boot_id="boot-2")

    [claim] = lend(after, "w2")

    assert claim.id == wanted.id
    assert claim.is_suspect
    assert job(after, wanted.id).history[-1].event == "lease ran out"
    after.close()


def test_a_restarted_machine_shows_a_lease_that_is_over(tmp_path: Path, clock: VirtualClock) -> None:
    before = PlainStore.create(tmp_path / "duly.db", clock)
    wanted = request()
    before.run(before.put([wanted]))
    lend(before, "w1")
    assert job(before, wanted.id).ready_at == clock.now() + LEASE
    before.close()

    after = PlainStore(tmp_path / "duly.db", clock, boot_id="boot-2")

    assert job(after, wanted.id).ready_at == clock.now()
    after.close()


def test_a_restarted_machine_has_let_go_of_every_lock(tmp_path: Path, clock: VirtualClock) -> None:
    before = PlainStore.create(tmp_path / "duly.db", clock)
    held = before.run(before.grip("door", "ann", 60 * SECOND))
    before.close()
    after = PlainStore(tmp_path / "duly.db", clock, boot_id="boot-2")

    taken = after.run(after.grip("door", "bob", 60 * SECOND))

    assert isinstance(held, Grip)
    assert isinstance(taken, Grip)
    assert taken.token > held.token
    after.close()


def test_a_job_that_is_lent_again_has_another_secret(store: PlainStore, clock: VirtualClock) -> None:
    store.run(store.put([request() for _ in range(20)]))
    claims = lend(store, "w1")
    clock.advance(LEASE)
    again = lend(store, "w2")

    secrets = {claim.nonce for claim in claims + again}

    assert not {claim.nonce for claim in claims} & {claim.nonce for claim in again}
    assert len({claim.fence for claim in claims + again}) == 40
    assert all(len(secret) == 16 for secret in secrets)
