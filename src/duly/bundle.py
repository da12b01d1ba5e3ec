"""Requests of one call, which differ in id and arguments only.

A Request has twenty fields and takes 3 µs to make: more than everything else that happens to one of a
thousand on its way to the store. So what they have in common is made once. A store that can write them
as they are does so; to all others a bundle is a sequence of requests like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Final, TypeVar, overload

from duly.job import Request

_SHARED: Final = tuple(field.name for field in fields(Request) if field.name not in ("id", "arguments"))
_shared: Final = attrgetter(*_SHARED)


class Bundle(Sequence[Request]):
    """Ids and arguments, and the pattern of the requests that they belong to."""

    __slots__ = ("arguments", "ids", "pattern")

    def __init__(self, pattern: Request, ids: Sequence[str], arguments: Sequence[str]) -> None:
        self.pattern = pattern
        """A request with all that they share; its own id and arguments mean nothing."""
        self.ids = ids
        self.arguments = arguments

    @property
    def is_distinct(self) -> bool:
        """Whether no id comes twice; those that are made when asked for never do."""
        return isinstance(self.ids, Later) or len(set(self.ids)) == len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> Bundle: ...
    def __getitem__(self, place: int | slice) -> Request | Bundle:
        if isinstance(place, slice):
            return Bundle(self.pattern, self.ids[place], self.arguments[place])
        return replace(self.pattern, id=self.ids[place], arguments=self.arguments[place])

    def __iter__(self) -> Iterator[Request]:
        shared = dict(zip(_SHARED, _shared(self.pattern), strict=True))
        for job_id, arguments in zip(self.ids, self.arguments, strict=True):
            yield Request(id=job_id, arguments=arguments, **shared)


class Later(Sequence[str]):
    """Texts that are made when somebody asks for them: from the first up to there, and once.

    So a store can be at work with the first of them while the others are still being made. What cannot be
    made raises for whoever asks for it, each time.
    """

    __slots__ = ("_amount", "_made", "_make")

    def __init__(self, amount: int, make: Callable[[int, int], Iterable[str]]) -> None:
        self._amount = amount
        self._make = make
        self._made: list[str] = []

    def __len__(self) -> int:
        return self._amount

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        begun, stop = len(self._made), self._end_of(place)
        if begun < stop:
            self._made += list(self._make(begun, stop))
        return self._made[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])

    def _end_of(self, place: int | slice) -> int:
        """All of them, unless it is a plain part."""
        if isinstance(place, slice) and place.step is None:
            return place.indices(self._amount)[1]
        return self._amount


R = TypeVar("R", bound=Sequence[Request])


def at_hand(requests: R) -> R | Bundle:
    """The same with nothing left to be made: for a store that must not be kept waiting by that."""
    if isinstance(requests, Bundle) and isinstance(requests.arguments, Later):
        return requests[:]
    return requests


def patterns(requests: Sequence[Request]) -> Sequence[Request]:
    """Enough of the requests to judge what does not depend on id and arguments."""
    return (requests.pattern,) if isinstance(requests, Bundle) and requests.ids else requests
