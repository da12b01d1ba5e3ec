"""The catalogue with what it takes to move house; none of it is kept out by the notice it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from duly.stores.drive import Operation, Steps
from duly.stores.house import Belonging, Furniture, Notice, Obstacles, Stage
from duly.stores.sqlite.operations import catalogue, house
from duly.stores.sqlite.operations.world import World

T = TypeVar("T")


class Operations(catalogue.Operations):
    """Everything a SQLite store can do."""

    def notice(self) -> Operation[Notice | None]:
        return self._reading("notice", lambda _: house.notice())

    def arrived(self) -> Operation[str | None]:
        return self._reading("arrived", lambda _: house.arrived())

    # leaving

    def seal(self, move: str, other: str) -> Operation[Notice]:
        return self._moving("seal", lambda _: house.put_up(Stage.SEALED, move, other))

    def shut(self, move: str) -> Operation[Obstacles]:
        return self._moving("shut", lambda world: house.shut(world, move))

    def pack(self, after: int, limit: int) -> Operation[list[Belonging]]:
        return self._reading("pack", lambda world: house.pack(world, after, limit))

    def furniture(self) -> Operation[Furniture]:
        return self._reading("furniture", house.furniture)

    def depart(self, move: str) -> Operation[bool]:
        return self._moving("depart", lambda _: house.advance(move, Stage.GONE, since=[Stage.CLOSED]))

    def reopen(self, move: str) -> Operation[bool]:
        since = [Stage.SEALED, Stage.CLOSED]
        return self._moving("reopen", lambda _: house.take_down(move, since=since))

    # arriving

    def receive(self, move: str, other: str) -> Operation[Notice | None]:
        return self._moving("receive", lambda _: house.receive(move, other))

    def unpack(self, move: str, after: int, belongings: Sequence[Belonging]) -> Operation[int | None]:
        return self._moving("unpack", lambda _: house.unpack(move, after, belongings))

    def furnish(self, move: str, furniture: Furniture) -> Operation[bool]:
        return self._moving("furnish", lambda world: house.furnish(world, move, furniture))

    def settle_in(self, move: str) -> Operation[bool]:
        return self._moving("settle_in", lambda _: house.settle_in(move))

    def clear_out(self, move: str) -> Operation[bool]:
        return self._moving("clear_out", lambda _: house.clear_out(move))

    def _moving(self, name: str, act: Callable[[World], Steps[T]]) -> Operation[T]:
        return Operation(name, lambda: act(self._world()))
