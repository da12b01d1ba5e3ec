"""The secret of a loan, as a worker shows it: one random number per claim, and the job it was lent with.

It also says where to look: which generation, and whether the job has a serial that must be locked first.
A worker treats all of it as a word that must match.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    return f"{prefix(seed, has_serial=has_serial)}{generation}"


def prefix(seed: int, *, has_serial: bool) -> str:
    """What the nonces of one claim have in common."""
    return f"{seed:0{_SEED_DIGITS}x}{'k' if has_serial else 'f'}"


def parted(nonces: Sequence[str]) -> tuple[list[str], list[str]]:
    """What each nonce has in common with others, and the generations as they are written."""
    border = _SEED_DIGITS + 1
    return [nonce[:border] for nonce in nonces], [nonce[border:] for nonce in nonces]


def seed_of(common: str) -> int | None:
    """The seed of a claim without a serial, by what its nonces have in common; None for any other."""
    try:
        return int(common[:_SEED_DIGITS], 16) if common[_SEED_DIGITS:] == "f" else None
    except ValueError:
        return None


def read(fence: Fence) -> Loan | None:
    """None for a fence that no claim of this store can have given."""
    nonce = fence.nonce
    try:
        seed, generation = int(nonce[:_SEED_DIGITS], 16), int(nonce[_SEED_DIGITS + 1 :])
    except ValueError:
        return None
    return Loan(generation, fence.epoch, seed, has_serial=nonce[_SEED_DIGITS] == "k")
