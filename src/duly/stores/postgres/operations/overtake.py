"""overtake: a later tick of a schedule takes the place of one that waits, for many schedules at once.

A worker that was held up for longer than its schedules rest finds an earlier tick of every one of them. Seen
to one by one they would hold it up for longer still, and it would never catch up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from duly.clash import Placement, Scene, Stander, place
from duly.job import Clash, Decision, State
from duly.lifecycle import move
from duly.stores.drive import Row, Statement, Steps
from duly.stores.postgres.operations.arrays import integers, restored_or_none, stored, words
from duly.stores.postgres.operations.rows import Peer
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.instants import instant

SQL = statements("overtake")
KNOWN: Final = statements("put")["known"]
FEW: Final = 2
"""From so many on it is worth while to look at all of them together."""


def lines_for(arrivals: Sequence[Arrival], taken: set[str]) -> Steps[dict[str, list[Peer]]]:
    """By serial, who waits for it, where nobody runs, is parked or was stopped. The serials are locked."""
    candidates = [one for one in arrivals if one.serial in taken and one.request.clash is Clash.ADD]
    if len(candidates) < FEW:
        return {}
    found = yield Statement(KNOWN, {"ids": words([one.request.id for one in candidates])})
    known = {job_id for job_id, _ in found}
    often = Counter(one.request.id for one in arrivals)  # the second is the first again, and overtakes nobody
    asked_before = {one.serial for one in candidates if one.request.id in known or often[one.request.id] > 1}
    wanted = {"serials": words(sorted({str(one.serial) for one in candidates} - asked_before))}
    lines = _lines((yield Statement(SQL["peers"], wanted)))
    return {serial: line for serial, line in lines.items() if _is_free(line)}


def _lines(found: Iterable[Row]) -> Mapping[str, list[Peer]]:
    lines: dict[str, list[Peer]] = {}
    for serial, *values in found:
        peer = Peer(*values)
        lines.setdefault(serial, []).append(peer._replace(key=restored_or_none(peer.key)))
    return lines


def _is_free(line: Sequence[Peer]) -> bool:
    return not any(peer.is_running or peer.is_parked for peer in line)


def overtaken_by(arrival: Arrival, line: Sequence[Peer]) -> list[Peer] | None:
    """Those whose place it takes; None where that is not all it does."""
    scene = Scene(waiting=[Stander(peer.id, peer.key, peer.generation) for peer in line])
    placement = place(arrival.request, scene, instant(arrival.at))
    plain = Placement(Decision.CREATED, arrival.request.id, creates=True, overtakes=placement.overtakes)
    return [peer for peer in line if peer.id in placement.overtakes] if placement == plain else None


def skip(world: World, late: Sequence[tuple[Peer, Arrival]]) -> Steps[None]:
    """Each ends without having run, because of the one that came."""
    if late:
        reasons = [stored(f"overtaken by {arrival.request.key}") for _, arrival in late]
        state = move(State.WAITING, "overtake")
        generations = integers([peer.generation for peer, _ in late])
        written = {"generations": generations, "reasons": words(reasons), "state": state, "now": world.now}
        yield Statement(SQL["skip"], written)
