"""Requests of one call, which differ in id and arguments only.

A Request has twenty fields and takes 3 µs to make: more than everything else that happens to one of a
thousand on its way to the store. So what they have in common is made once. A store that can write them
as they are does so; to all others a bundle is a sequence of requests like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Final, overload

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


def patterns(requests: Sequence[Request]) -> Sequence[Request]:
    """Enough of the requests to judge what does not depend on id and arguments."""
    return (requests.pattern,) if isinstance(requests, Bundle) and requests.ids else requests
