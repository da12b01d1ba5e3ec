"""What the next turn is likely to settle is packed beforehand, in parts, and once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from duly.job import Fence
from duly.lifecycle import Done
from duly.stores.contract import Settlement
from duly.stores.postgres.operations.foreseen import Foreseen

Part = tuple[list[Settlement], int]


class Packer:
    """Writes down what it was given."""

    def __init__(self) -> None:
        self.packed: list[Part] = []
        self.foreseen = Foreseen(self._pack)

    def _pack(self, part: Sequence[Settlement], before: int) -> Part:
        self.packed.append((list(part), before))
        return self.packed[-1]


@pytest.fixture
def packer() -> Packer:
    return Packer()


ENDS = [Settlement(Fence(f"{number}", 1, "secret"), Done()) for number in range(4)]


def test_a_turn_has_only_the_rest_to_pack(packer: Packer) -> None:
    packer.foreseen.foresee(ENDS[:1])
    packer.foreseen.foresee(ENDS[:3])

    parts = packer.foreseen.take(ENDS)

    assert parts == packer.packed == [(ENDS[:1], 0), (ENDS[1:3], 1), (ENDS[3:], 3)]


@pytest.mark.parametrize("meant", [ENDS[1:], ENDS[:1], [ENDS[3], *ENDS[:2]]])
def test_a_turn_that_settles_others_packs_those(packer: Packer, meant: list[Settlement]) -> None:
    packer.foreseen.foresee(ENDS[:2])

    assert packer.foreseen.take(meant) == [(meant, 0)]


def test_an_equal_end_that_is_another_one_is_packed_itself(packer: Packer) -> None:
    """Whoever made it anew may have changed what it says."""
    packer.foreseen.foresee(ENDS[:1])
    (twin,) = [end._replace() for end in ENDS[:1]]

    (part,) = packer.foreseen.take([twin])

    assert part[0][0] is twin


def test_nothing_is_kept_once_it_was_taken(packer: Packer) -> None:
    packer.foreseen.foresee(ENDS)

    first, second = packer.foreseen.take(ENDS), packer.foreseen.take(ENDS)

    assert first == second == [(ENDS, 0)]
    assert len(packer.packed) == 2
    assert getattr(packer.foreseen, "_known") == ([], [])  # noqa: B009  nobody else asks for it


def test_where_nothing_ended_nothing_is_packed(packer: Packer) -> None:
    assert packer.foreseen.take([]) == packer.packed == []
