"""The operations with what it takes to move house; none of it is kept out by the notice it is about."""

from __future__ import annotations

from collections.abc import Sequence

from duly.stores.drive import Operation
from duly.stores.house import Belonging, Furniture, Notice, Obstacles, Stage
from duly.stores.postgres.operations import Operations, arriving, house


class Movable(Operations):
    """Everything a PostgreSQL store can do."""

    def notice(self) -> Operation[Notice | None]:
        return self._reading("notice", house.at_the_door)

    def arrived(self) -> Operation[str | None]:
        return self._reading("arrived", lambda _: house.arrived())

    # leaving

    def seal(self, move: str, other: str) -> Operation[Notice]:
        return self._writing("seal", lambda _: house.put_up(Stage.SEALED, move, other), may_repeat=True)

    def shut(self, move: str) -> Operation[Obstacles]:
        return self._placing("shut", lambda _: house.shut(move), may_repeat=True)

    def pack(self, after: int, limit: int) -> Operation[list[Belonging]]:
        return self._reading("pack", lambda world: house.pack(world, after, limit))

    def furniture(self) -> Operation[Furniture]:
        return self._reading("furniture", house.furniture)

    def depart(self, move: str) -> Operation[bool]:
        return self._writing("depart", lambda _: house.advance(move, Stage.GONE, since=[Stage.CLOSED]))

    def reopen(self, move: str) -> Operation[bool]:
        since = [Stage.SEALED, Stage.CLOSED]
        return self._writing("reopen", lambda _: house.take_down(move, since=since))

    # arriving

    def receive(self, move: str, other: str) -> Operation[Notice | None]:
        return self._writing("receive", lambda _: arriving.receive(move, other), may_repeat=True)

    def unpack(self, move: str, after: int, belongings: Sequence[Belonging]) -> Operation[int | None]:
        return self._writing(
            "unpack", lambda world: arriving.unpack(world, move, after, belongings), may_repeat=True
        )

    def furnish(self, move: str, furniture: Furniture) -> Operation[bool]:
        return self._writing(
            "furnish", lambda world: arriving.furnish(world, move, furniture), may_repeat=True
        )

    def settle_in(self, move: str) -> Operation[bool]:
        return self._writing("settle_in", lambda _: arriving.settle_in(move))

    def clear_out(self, move: str) -> Operation[bool]:
        return self._writing("clear_out", lambda _: arriving.clear_out(move))
