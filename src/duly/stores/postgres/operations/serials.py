"""Locks on what must not overlap: whoever holds a serial is the only one to move its jobs.

A request waits for its turn. A worker waits only as long as a request takes; what it cannot have then it
leaves for later, so no transaction of a user and no bulk of requests can hold it up.
"""

from __future__ import annotations

from collections.abc import Iterable

from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers, words
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World

SQL = statements("serials")


def lock(serials: Iterable[str]) -> Steps[None]:
    """Wait for all of them, in one order for everybody, so that nobody waits in a circle."""
    wanted = sorted(set(serials))
    if wanted:
        yield Statement(SQL["lock"], {"serials": words(wanted)})


def try_lock(serials: Iterable[str]) -> Steps[set[str]]:
    """Take those that nobody else holds now; answers which."""
    wanted = set(serials)
    if not wanted:
        return wanted
    found = yield Statement(SQL["try_lock"], {"serials": words(sorted(wanted))})
    held = {serial for (serial,) in found}
    if held == wanted:
        return held
    # New ones, and those that pruning took for idle; what somebody else holds stays out.
    made = yield Statement(SQL["make"], {"serials": words(sorted(wanted - held))})
    return held | {serial for (serial,) in made}


def hold(world: World, serials: Iterable[str]) -> Steps[set[str]]:
    """Take them for a worker: requests are short, so wait a little, but at a second try for nobody."""
    wanted = set(serials)
    held = yield from try_lock(wanted)
    if held != wanted and not world.is_wary:
        yield from lock(wanted - held)
        return wanted
    return held


def of_runs(generations: Iterable[int]) -> Steps[dict[int, str]]:
    """The serials of jobs on loan, by generation; those without are left out."""
    found = yield Statement(SQL["of_runs"], {"generations": integers(generations)})
    return dict(found)
