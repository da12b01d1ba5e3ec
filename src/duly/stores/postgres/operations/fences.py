"""The secret of a loan, as a worker shows it: one random number per claim, and the job it was lent with.

It also says where to look: which generation, and whether the job has a serial that must be locked first.
A worker treats all of it as a word that must match.
"""

from __future__ import annotations

from typing import NamedTuple

from duly.ids import new_nonce
from duly.job import Fence

_SEED_DIGITS = 16


class Loan(NamedTuple):
    """A fence, read."""

    generation: int
    epoch: int
    seed: int
    has_serial: bool


def new_seed() -> int:
    """PostgreSQL's integers are signed."""
    return int(new_nonce(), 16) >> 1


def secret(seed: int, generation: int, *, has_serial: bool) -> str:
    """The nonce of one loan."""
    return f"{seed:016x}{'k' if has_serial else 'f'}{generation:x}"


def read(fence: Fence) -> Loan | None:
    """None for a fence that no claim of this store can have given."""
    nonce = fence.nonce
    try:
        seed, generation = int(nonce[:_SEED_DIGITS], 16), int(nonce[_SEED_DIGITS + 1 :], 16)
    except ValueError:
        return None
    return Loan(generation, fence.epoch, seed, has_serial=nonce[_SEED_DIGITS] == "k")
