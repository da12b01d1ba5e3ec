"""What was lent, as the store told it: claims are made of it when somebody looks.

A worker asks the store again before it looks at what it got the last time: the store need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from duly.job import Claim


class Unread(Sequence[Claim]):
    """So many claims, made once, all together."""

    __slots__ = ("_amount", "_claims", "_read")

    def __init__(self, amount: int, read: Callable[[], list[Claim]]) -> None:
        self._amount = amount
        self._read: Callable[[], list[Claim]] | None = read
        self._claims: list[Claim] = []

    def __repr__(self) -> str:
        return f"<{self._amount} claims>" if self._read else repr(self._claims)

    def __len__(self) -> int:
        return self._amount

    @overload
    def __getitem__(self, place: int) -> Claim: ...
    @overload
    def __getitem__(self, place: slice) -> list[Claim]: ...
    def __getitem__(self, place: int | slice) -> Claim | list[Claim]:
        if self._read is not None:
            self._claims, self._read = self._read(), None  # with it goes what the store told
        return self._claims[place]

    def __eq__(self, other: object) -> bool:
        return self[:] == (other[:] if isinstance(other, Unread) else other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Claim]:
        return iter(self[:])
