"""`app.audit`: who gave which order, when, to what, and what became of it.

Written by the places that carry orders out, so that no way to give one goes round it. An order without a
name behind it is a program's own doing and is not written down. The line is there before the order takes
effect and is completed afterwards: one that stays incomplete tells of an order that was cut short.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from duly.converse import Conversation
from duly.stores.contract import Store
from duly.stores.drive import Operation
from duly.stores.reports import Entry

KIND: Final = "audit"
KEPT: Final = timedelta(days=90)
NAMED: Final = 20
"""So many jobs of an order by id are named; of the others it tells how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """An order that somebody gave."""

    number: int
    """Its place; `before` of `list` goes on from there."""
    at: datetime
    by: str
    order: str
    """retry, cancel, delete, postpone; pause, resume; trigger, edit, reset; reconcile."""
    about: Mapping[str, Any]
    """The filters, the first ids, or the name of what it was given to."""
    changed: int
    refused: int
    is_complete: bool


Deeds = list[Deed]
Entries = list[Entry]
"""Named, because inside `Audit` the word `list` is a method."""


@dataclass(slots=True)
class Draft:
    """A line that is being written."""

    order: str
    about: Mapping[str, Any]
    by: str
    changed: int = 0
    refused: int = 0
    number: int | None = None

    def count(self, changed: int, refused: int) -> None:
        """More of the order was carried out."""
        self.changed += changed
        self.refused += refused

    def text(self, *, is_complete: bool) -> str:
        """As it is stored. ASCII: whatever was asked for can be written down."""
        values = (self.by, self.order, self.about, self.changed, self.refused, is_complete)
        return json.dumps(values, default=str)


_surrounding: ContextVar[Draft | None] = ContextVar("duly_surrounding_order", default=None)


class Audit:
    """Reading has an async twin with a leading `a`."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self, *, limit: int = 100, before: int | None = None) -> Deeds:
        """Orders of the last 90 days, newest first; `before` is the number to go on from."""
        return [_deed(entry) for entry in self._store().run(self._read(limit, before))]

    async def alist(self, *, limit: int = 100, before: int | None = None) -> Deeds:
        """The async twin of list."""
        return [_deed(entry) for entry in await self._store().arun(self._read(limit, before))]

    @contextmanager
    def one_order(self, order: str, about: Mapping[str, Any], *, by: str) -> Generator[Draft]:
        """What is ordered inside the block, in however many parts, is one line."""
        draft = Draft(order, about, by)
        self._write(draft, is_complete=False)
        token, is_complete = _surrounding.set(draft), False
        try:
            yield draft
            is_complete = True
        finally:
            _surrounding.reset(token)
            self._write(draft, is_complete=is_complete)

    # for the places that carry orders out

    def tell(self, draft: Draft) -> None:
        """How far an order is: for who watches it, and for what is left of it if its process dies."""
        self._write(draft, is_complete=False)

    def begin(self, order: str, about: Mapping[str, Any], by: str) -> Conversation[Draft]:
        """An order is about to be carried out, perhaps in many steps; `end` completes the line."""
        draft = Draft(order, about, by)
        if by and _surrounding.get() is None:
            draft.number = yield self._jot(draft, is_complete=False)
        return draft

    def end(self, draft: Draft, *, changed: int, refused: int) -> Conversation[None]:
        """It was carried out."""
        (_surrounding.get() or draft).count(changed, refused)
        if draft.number is not None:
            yield self._jot(draft, is_complete=True)

    def note(self, order: str, about: Mapping[str, Any], by: str) -> Conversation[None]:
        """An order of one step, just before it takes effect."""
        draft = Draft(order, about, by)
        (_surrounding.get() or draft).count(1, 0)
        if by and _surrounding.get() is None:
            yield self._jot(draft, is_complete=True)

    def _write(self, draft: Draft, *, is_complete: bool) -> None:
        if draft.by:
            draft.number = self._store().run(self._jot(draft, is_complete=is_complete))

    def _jot(self, draft: Draft, *, is_complete: bool) -> Operation[int]:
        return self._store().jot(KIND, draft.text(is_complete=is_complete), keep=KEPT, number=draft.number)

    def _read(self, limit: int, before: int | None) -> Operation[Entries]:
        return self._store().diary(KIND, limit=limit, before=before)


def _deed(entry: Entry) -> Deed:
    by, order, about, changed, refused, is_complete = json.loads(entry.text)
    return Deed(
        number=entry.number,
        at=entry.at,
        by=by,
        order=order,
        about=about,
        changed=changed,
        refused=refused,
        is_complete=is_complete,
    )
