"""What a notice means to everybody else: producers, workers, operators, and transactions in progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.contract.arrange import (
    LEASE,
    MINUTE,
    ask,
    begin,
    claim,
    claim_all,
    find,
    look,
    put,
    put_one,
    request,
    settle,
    start,
    state,
)
from tests.move.arrange import MOVE, TARGET, close, move, mover, seal, shut, stage, unpack_all
from tests.servers import postgres_schema, postgres_url

from duly.errors import StoreMoved, StoreUnavailable
from duly.job import Decision, State
from duly.lifecycle import Done, Settled, TryAgain
from duly.move import MoveRefused, undo
from duly.stores.contract import Cancel, Grip, Parcel, Scope, Selection, Settlement, Store, Switch
from duly.stores.drive import Operation
from duly.stores.house import House, Stage
from duly.stores.postgres import PostgresStore
from duly.testing import VirtualClock

Making = Callable[[Store], Operation[Any]]

PRODUCING: dict[str, Making] = {
    "put": lambda store: store.put([request()]),
    "offer": lambda store: store.offer([request()]),
    "deliver": lambda store: store.deliver("shop", [Parcel(request(), 1)]),
    "amend": lambda store: store.amend(Selection(ids=("x",)), Cancel()),
    "hold": lambda store: store.hold(Switch(Scope.TASK, "send", None)),
    "free": lambda store: store.free(Scope.TASK, "send"),
    "record": lambda store: store.record("kind", "name", "text"),
}
UPKEEP: dict[str, Making] = {
    "prune": lambda store: store.prune(10),
    "grip": lambda store: store.grip("lock", "anna", MINUTE),
    "keep_grip": lambda store: store.keep_grip(Grip("lock", 1), MINUTE),
    "let_go": lambda store: store.let_go(Grip("lock", 1)),
}


# --- producers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("making", PRODUCING.values(), ids=PRODUCING)
def test_a_late_producer_is_told_where_everything_went(house: House, making: Making) -> None:
    put_one(house, request(id="x"))
    seal(house)

    with pytest.raises(StoreMoved, match=f"moved to {TARGET}.*DULY_URL") as told:
        house.run(making(house))

    assert told.value.target == TARGET
    assert (state(house, "x"), len(find(house))) == (State.WAITING, 1)


@pytest.mark.parametrize("making", UPKEEP.values(), ids=UPKEEP)
def test_what_bodies_need_is_refused_only_when_nothing_runs_any_more(house: House, making: Making) -> None:
    seal(house)
    house.run(making(house))

    shut(house)

    with pytest.raises(StoreMoved):
        house.run(making(house))


@pytest.mark.parametrize("making", (PRODUCING | UPKEEP).values(), ids=PRODUCING | UPKEEP)
def test_nobody_writes_to_a_store_that_is_being_filled(house: House, making: Making) -> None:
    house.run(house.receive(MOVE, "the old place"))

    with pytest.raises(StoreUnavailable, match="being filled from the old place") as told:
        house.run(making(house))

    assert not isinstance(told.value, StoreMoved)


def test_reading_goes_on(house: House) -> None:
    put_one(house, request(id="x"))
    shut(house)

    assert look(house, "x").state is State.WAITING
    assert house.run(house.count(Selection())) == 1


# --- workers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [seal, shut])
def test_nothing_is_lent_behind_a_notice(house: House, leave: Callable[[House], None]) -> None:
    put(house, request(), request("key"))
    leave(house)

    assert claim_all(house) == []
    assert house.run(house.turn([], ask())).claimed.claims == []


def test_nothing_is_lent_while_everything_arrives(house: House) -> None:
    house.run(house.receive(MOVE, "the old place"))

    assert claim_all(house) == []


def test_what_runs_may_end_and_what_it_leaves_behind_is_kept(house: House) -> None:
    lent = start(house, request())
    seal(house)
    assert begin(house, lent)

    follow_up = request(id="follow-up")
    answer = settle(house, lent, Done("1"), then=[follow_up])

    assert (answer, state(house, lent.id)) == (Settled.SETTLED, State.DONE)
    assert state(house, "follow-up") is State.WAITING


def test_a_run_can_go_on_later_at_the_new_place(house: House, elsewhere: House, clock: VirtualClock) -> None:
    lent = start(house, request())
    seal(house)
    settle(house, lent, TryAgain(MINUTE, "boom"))

    move_on = mover(house, elsewhere, clock)
    move_on.run()

    assert look(elsewhere, lent.id).attempt == 1


def test_a_zombies_verdict_changes_nothing_once_all_stands_still(house: House, clock: VirtualClock) -> None:
    lent = start(house, request())
    seal(house)
    clock.advance(2 * LEASE)
    claim(house, ask("w2"))
    close(house)
    before = find(house)

    answer = settle(house, lent)
    turned = house.run(house.turn([Settlement(lent.fence, Done())], ask()))

    assert (answer, turned.answers) == (Settled.LOST, [Settled.LOST])
    assert find(house) == before


def test_a_store_with_something_running_is_not_closed(house: House) -> None:
    start(house, request())
    seal(house)

    assert house.run(house.shut(MOVE)).running == 1
    assert stage(house) is Stage.SEALED


# --- two movers, and second thoughts ------------------------------------------------------------


def test_a_second_seal_leaves_the_first_in_place(house: House) -> None:
    seal(house)

    notice = house.run(house.seal("move-2", "a third place"))

    assert (notice.move, notice.other) == (MOVE, TARGET)


def test_a_move_to_another_target_is_refused(house: House, elsewhere: House, clock: VirtualClock) -> None:
    house.run(house.seal(MOVE, "a third place"))

    with pytest.raises(MoveRefused, match="being moved to a third place, not to the new place"):
        move(house, elsewhere, clock)


def test_an_undone_move_leaves_everything_as_it_was(
    house: House, elsewhere: House, clock: VirtualClock
) -> None:
    put_one(house, request(id="x"))
    house.run(house.seal(MOVE, TARGET))
    house.run(house.shut(MOVE))
    elsewhere.run(elsewhere.receive(MOVE, "the old place"))
    unpack_all(house, elsewhere)

    undo(house, elsewhere, "the old place")

    assert [lent.id for lent in claim_all(house)] == ["x"]
    assert (stage(elsewhere), find(elsewhere)) == (None, [])


def test_a_mover_whose_move_was_undone_ends_without_harm(
    house: House, elsewhere: House, clock: VirtualClock
) -> None:
    put_one(house, request(id="x"))
    shut(house)
    moving = mover(house, elsewhere, clock)

    def change_mind(line: str) -> None:
        if line.startswith("checked"):
            undo(house, None, "the old place")

    moving.tell = change_mind

    with pytest.raises(MoveRefused, match="undone"):
        moving.run()

    assert [lent.id for lent in claim_all(house)] == ["x"]
    assert claim_all(elsewhere) == []


def test_a_finished_move_cannot_be_undone(house: House, elsewhere: House, clock: VirtualClock) -> None:
    move(house, elsewhere, clock)

    with pytest.raises(MoveRefused, match="cannot be undone"):
        undo(house, elsewhere, "the old place")


def test_without_a_move_there_is_nothing_to_undo(house: House) -> None:
    with pytest.raises(MoveRefused, match="nothing to undo"):
        undo(house, None, "the old place")


def test_what_an_undone_move_left_is_cleared_out_by_the_next(
    house: House, elsewhere: House, clock: VirtualClock
) -> None:
    put_one(house, request(id="x"))
    shut(house)
    elsewhere.run(elsewhere.receive(MOVE, "the old place"))
    unpack_all(house, elsewhere)
    undo(house, None, "the old place")
    settle(house, claim_all(house)[0])

    move(house, elsewhere, clock)

    assert [(job.id, job.state) for job in find(elsewhere)] == [("x", State.DONE)]


# --- transactions in progress (PostgreSQL) --------------------------------------------------------


@pytest.fixture
def postgres(tmp_path: Path) -> PostgresStore:
    store = PostgresStore(postgres_url(), namespace=postgres_schema(tmp_path))
    store.open()
    return store


def test_the_seal_waits_for_a_transaction_that_has_enqueued(
    postgres: PostgresStore, elsewhere: House, clock: VirtualClock
) -> None:
    with psycopg.connect(postgres_url()) as connection:
        [keyed] = postgres.run_on(connection, postgres.offer([request("key", id="mine")]))
        impatient = mover(postgres, elsewhere, clock, wait="1s")
        with pytest.raises(MoveRefused, match="could not be sealed within 0:00:01, so nothing has changed"):
            impatient.run()
        connection.commit()

    move(postgres, elsewhere, clock)

    assert keyed.decision is Decision.PENDING
    assert [job.id for job in find(elsewhere)] == ["mine"]
    postgres.close()


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_a_transaction_that_enqueues_after_the_seal_is_told(postgres: PostgresStore, level: str) -> None:
    with psycopg.connect(postgres_url()) as connection:
        connection.execute(f"set transaction isolation level {level}".encode())
        connection.execute("select 1 from pg_class limit 1")
        seal(postgres)

        with pytest.raises(StoreMoved):
            postgres.run_on(connection, postgres.offer([request("key")]))

    postgres.close()
