"""swift: put one request that meets nobody, in two statements instead of five.

Where anything is not as it mostly is (a notice, a newer schema, an intake, a known id), the number is given
back and the request goes the way of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from duly.bundle import Bundle
from duly.job import Decision, Request
from duly.stores.contract import Placed
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.arrivals import arrived, columns
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.requests import FORMAT

SQL = statements("swift")


class Lone(NamedTuple):
    """A request that can meet nobody, in the parts of which a bundle has it: making one whole costs 6 µs."""

    pattern: Request
    id: str
    arguments: str

    def columns(self, world: World, generation: int) -> dict[str, Any]:
        """The row that it becomes."""
        own = {"id": self.id, "arguments": self.arguments, "generation": generation}
        return columns(arrived(self.pattern, world.now)) | own


def lone(requests: Sequence[Request]) -> Lone | None:
    """The only request, if it can meet nobody."""
    if len(requests) != 1:
        return None
    if isinstance(requests, Bundle):
        found = Lone(requests.pattern, requests.ids[0], requests.arguments[0])
    else:
        found = Lone(requests[0], requests[0].id, requests[0].arguments)
    return found if found.pattern.lane_of_serial is None else None


def put_alone(
    world: World, request: Lone, level: int | None, otherwise: Callable[[], Steps[list[Placed]]]
) -> Steps[list[Placed]]:
    """Store it at once, or give the number back and put it as others are."""
    ((generation, oldest_code, has_notice, has_intake),) = yield Statement(SQL["draw"], {"format": FORMAT})
    is_plain = not has_notice and not has_intake and (level is None or oldest_code <= level)
    if is_plain and (yield Statement(SQL["insert"], request.columns(world, generation))):
        return [Placed(request.id, generation, Decision.CREATED)]
    yield Statement(SQL["give_back"])
    return (yield from otherwise())
