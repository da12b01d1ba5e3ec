"""The outbox by itself: what is lent to whom, under which number, and what is cleared away."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.arrange import HOUR, KEY, LEASE, MINUTE, SECOND, replacing, request
from tests.outbox.conftest import Database

from duly.errors import DefinitionError
from duly.job import Decision, Request, State
from duly.outbox import open_outbox
from duly.outbox.contract import Outbox, Slip
from duly.settings import Settings
from duly.stores.contract import Placed
from duly.testing import VirtualClock


def append(outbox: Outbox, connection: Any, *requests: Request) -> list[Placed]:
    return outbox.run_on(connection, outbox.append(requests))


def commit(outbox: Outbox, connection: Any, *requests: Request) -> None:
    append(outbox, connection, *requests)
    connection.commit()


def lease(outbox: Outbox, limit: int = 100) -> list[Slip]:
    return outbox.run(outbox.lease(LEASE, limit)).slips


def jobs(slips: Sequence[Slip]) -> list[str]:
    return [slip.job for slip in slips]


# --- the user's transaction -----------------------------------------------------------------------


def test_a_request_is_pending_and_keeps_its_id(outbox: Outbox, connection: Any) -> None:
    free, keyed = request(), request(KEY)

    placed = append(outbox, connection, free, keyed)

    assert placed == [Placed(one.id, 0, Decision.PENDING) for one in (free, keyed)]


def test_nothing_is_lent_before_the_commit(outbox: Outbox, connection: Any) -> None:
    wanted = request()
    append(outbox, connection, wanted)
    before = [] if outbox.url.startswith("sqlite") else lease(outbox)  # a file has one writer at a time

    connection.commit()

    assert (before, jobs(lease(outbox))) == ([], [wanted.id])


def test_a_rollback_leaves_nothing(outbox: Outbox, connection: Any) -> None:
    append(outbox, connection, request(), request(KEY))

    connection.rollback()

    assert lease(outbox) == []


def test_a_request_that_no_store_could_hold_is_refused_at_once(outbox: Outbox, connection: Any) -> None:
    with pytest.raises(Exception, match=r"more than can be stored|surrogates|half of a character"):
        append(outbox, connection, request(KEY, context="\ud800"))
    connection.commit()

    assert lease(outbox) == []


def test_a_request_comes_back_as_it_was_made(outbox: Outbox, connection: Any) -> None:
    wanted = replacing("schlüssel", arguments='[["\\u0000ü"],{}]', delay=MINUTE, expires_after=HOUR)
    commit(outbox, connection, wanted)

    [slip] = lease(outbox)

    assert slip.read() == wanted


def test_a_slip_knows_how_long_ago_it_was_made(outbox: Outbox, connection: Any, clock: VirtualClock) -> None:
    commit(outbox, connection, request())
    clock.advance(MINUTE)

    [slip] = lease(outbox)

    assert slip.age == MINUTE


# --- lending --------------------------------------------------------------------------------------


def test_what_is_lent_is_lent_to_nobody_else_before_the_lease_ends(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    commit(outbox, connection, request())
    first = lease(outbox)
    clock.advance(LEASE - SECOND)
    meanwhile = lease(outbox)
    clock.advance(SECOND)

    again = lease(outbox)

    assert (meanwhile, jobs(again)) == ([], jobs(first))


def test_a_look_tells_whether_something_could_be_borrowed(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    seen = [outbox.run(outbox.waits())]
    commit(outbox, connection, request())
    seen.append(outbox.run(outbox.waits()))
    lease(outbox)
    seen.append(outbox.run(outbox.waits()))
    clock.advance(LEASE)
    seen.append(outbox.run(outbox.waits()))

    assert seen == [False, True, False, True]


def test_whoever_is_late_has_the_lower_number(outbox: Outbox, connection: Any, clock: VirtualClock) -> None:
    commit(outbox, connection, request(KEY))
    [late] = lease(outbox)
    clock.advance(LEASE)

    [in_time] = lease(outbox)

    assert late.number < in_time.number


def test_numbers_rise_in_the_order_of_the_requests(outbox: Outbox, connection: Any) -> None:
    wanted = [request() for _ in range(5)]
    commit(outbox, connection, *wanted)

    slips = [*lease(outbox, 2), *lease(outbox, 2), *lease(outbox, 2)]

    assert jobs(slips) == [one.id for one in wanted]
    assert [slip.number for slip in slips] == sorted({slip.number for slip in slips})


# A file has one writer at a time: transactions commit in the order of their writes.
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_what_commits_later_has_the_higher_number_though_it_was_written_first(
    database: Database, outbox: Outbox, connection: Any
) -> None:
    early, late = replacing(arguments="[[1],{}]"), replacing(arguments="[[2],{}]")
    append(outbox, connection, early)
    with database.connect() as other:
        commit(outbox, other, late)
    [first] = lease(outbox)
    outbox.run(outbox.clear([first]))
    connection.commit()

    [second] = lease(outbox)

    assert (first.job, second.job) == (late.id, early.id)
    assert first.number < second.number


def test_while_a_relay_has_a_key_in_hand_nothing_newer_of_it_is_lent(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    first, second, other = request(KEY), request(KEY), request("lease:43")
    commit(outbox, connection, first)
    in_hand = lease(outbox)
    commit(outbox, connection, second, other)
    meanwhile = lease(outbox)

    outbox.run(outbox.clear(in_hand))

    assert jobs(meanwhile) == [other.id]
    assert jobs(lease(outbox)) == [second.id]


def test_when_a_relay_died_its_keys_are_lent_in_their_old_order(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    first, second = request(KEY), request(KEY)
    commit(outbox, connection, first)
    lease(outbox)
    commit(outbox, connection, second)
    clock.advance(LEASE)

    assert jobs(lease(outbox)) == [first.id, second.id]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_step_of_the_wall_clock_ends_no_lease_in_a_file(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    commit(outbox, connection, request())
    lease(outbox)

    clock.step_wall(HOUR)

    assert lease(outbox) == []


def test_a_counter_that_was_set_back_gives_no_number_twice(
    database: Database, outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    commit(outbox, connection, request())
    [before] = lease(outbox)
    database.execute(f"update {database.slips.removesuffix('slip')}counter set last = 0")
    clock.advance(SECOND)
    commit(outbox, connection, request())

    [after] = lease(outbox)

    assert after.number > before.number


def test_of_many_relays_each_gets_other_slips(outbox: Outbox, connection: Any) -> None:
    wanted = [request(f"lease:{number % 10}") for number in range(200)]
    commit(outbox, connection, *wanted)

    def relay(_: int) -> list[Slip]:
        mine: list[Slip] = []
        while slips := lease(outbox, 7):
            mine += slips
        return mine

    with ThreadPoolExecutor(4) as pool:
        lent = [slip for slips in pool.map(relay, range(4)) for slip in slips]

    assert len({slip.id for slip in lent}) == len(lent) == len({slip.number for slip in lent})


# --- afterwards -----------------------------------------------------------------------------------


def test_what_is_cleared_is_gone(outbox: Outbox, connection: Any, clock: VirtualClock) -> None:
    commit(outbox, connection, request())

    assert outbox.run(outbox.clear(lease(outbox))) == 1

    clock.advance(LEASE)
    assert lease(outbox) == []


def test_who_lost_the_lease_clears_nothing(outbox: Outbox, connection: Any, clock: VirtualClock) -> None:
    commit(outbox, connection, request())
    late = lease(outbox)
    clock.advance(LEASE)
    in_time = lease(outbox)

    assert outbox.run(outbox.clear(late)) == 0
    assert outbox.run(outbox.clear(in_time)) == 1


def test_what_is_released_is_lent_at_once(outbox: Outbox, connection: Any) -> None:
    commit(outbox, connection, request())
    first = lease(outbox)

    outbox.run(outbox.release(first))

    assert jobs(lease(outbox)) == jobs(first)


def test_what_is_set_aside_blocks_nobody_and_keeps_its_place_in_the_order(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    bad, good = replacing(), replacing()
    commit(outbox, connection, bad)
    [slip] = lease(outbox)
    outbox.run(outbox.set_aside(slip, "no such promise", MINUTE))
    commit(outbox, connection, good)
    [passed] = lease(outbox)
    outbox.run(outbox.clear([passed]))
    clock.advance(MINUTE)

    [again] = lease(outbox)

    assert (passed.job, again.job) == (good.id, bad.id)
    assert again.number == slip.number < passed.number


def test_the_backlog_tells_how_much_waits_and_why(
    outbox: Outbox, connection: Any, clock: VirtualClock
) -> None:
    empty = outbox.run(outbox.backlog())
    commit(outbox, connection, request())
    clock.advance(MINUTE)
    commit(outbox, connection, request())
    outbox.run(outbox.set_aside(lease(outbox, 1)[0], "TypeError: priority", HOUR))

    assert empty == (0, timedelta(0), 0, "")
    assert outbox.run(outbox.backlog()) == (2, MINUTE, 1, "TypeError: priority")


def test_a_request_can_be_found_on_its_way(outbox: Outbox, connection: Any, clock: VirtualClock) -> None:
    wanted = request(KEY, delay=MINUTE)
    commit(outbox, connection, wanted)

    found = outbox.run(outbox.find(wanted.id))

    assert found is not None
    assert (found.id, found.key, found.state) == (wanted.id, KEY, State.WAITING)
    assert found.due == clock.now() + MINUTE
    assert outbox.run(outbox.find("another")) is None


def test_a_request_is_withdrawn_unless_a_relay_has_it(outbox: Outbox, connection: Any) -> None:
    lent, waiting = request(), request()
    commit(outbox, connection, lent)
    lease(outbox)
    commit(outbox, connection, waiting)

    assert outbox.run(outbox.withdraw(waiting.id)) == 1
    assert outbox.run(outbox.withdraw(lent.id)) == 0
    assert outbox.run(outbox.find(waiting.id)) is None


def test_an_outbox_lies_in_a_database_with_transactions(clock: VirtualClock) -> None:
    with pytest.raises(DefinitionError, match=r"redis://localhost.*postgresql://"):
        open_outbox(Settings(outbox="redis://localhost"), clock)
    assert open_outbox(Settings(), clock) is None
