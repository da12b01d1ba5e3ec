"""What the next turn is likely to settle, packed while the store is still busy with the last one.

Packed in parts, as runs end; a turn that settles just these, or some more after them, has only the rest to
pack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Generic, TypeVar

from duly.stores.contract import Settlement

P = TypeVar("P")


class Foreseen(Generic[P]):
    """Of one store; `pack` is given a part, and how many come before it."""

    def __init__(self, pack: Callable[[Sequence[Settlement], int], P]) -> None:
        self._pack = pack
        self._known: tuple[list[Settlement], list[P]] = ([], [])
        """Put in its place as a whole: several threads may share a store."""

    def foresee(self, settlements: Sequence[Settlement]) -> None:
        """Pack them for a turn to come."""
        self._known = (list(settlements), self._parts_of(settlements))

    def take(self, settlements: Sequence[Settlement]) -> list[P]:
        """All of them, packed, in parts; nothing of it is kept, since results may be large."""
        parts = self._parts_of(settlements)
        self.forget()
        return parts

    def forget(self) -> None:
        self._known = ([], [])

    def _parts_of(self, settlements: Sequence[Settlement]) -> list[P]:
        known, parts = self._known
        if len(known) > len(settlements) or not all(map(is_, known, settlements)):
            known, parts = [], []
        rest = settlements[len(known) :]
        return [*parts, self._pack(rest, len(known))] if rest else parts
