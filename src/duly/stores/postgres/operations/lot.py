"""What a message lends, as the server tells it, and the claims that are made of it.

Jobs that were never lent before agree in most of what a claim is made of. The server tells all of them in one
row, and what they differ in as lists: half as much to send, to wait for and to read as a row for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from duly.job import Claim, as_claim
from duly.stores.drive import Row
from duly.stores.lent import Unread
from duly.stores.postgres.operations.arrays import restored
from duly.stores.postgres.operations.fences import prefix
from duly.stores.postgres.operations.lanes import Book
from duly.stores.postgres.operations.lend import made_claims
from duly.stores.postgres.operations.sight import LANE, READY_AT
from duly.stores.tables.instants import instant

BORDER: Final = "\uffff,"
"""Between two texts. In a stored one, a digit follows every such mark."""
ARGUMENTS, CONTEXT = 5, 14
IDS, GENERATIONS, LANES, MOMENTS, CONFIRMED, FOUND, NOW, PROSPECTS = range(17, 25)
"""Places in the first row that `lend_swiftly` answers; each of the others is of one job."""


class Lot(NamedTuple):
    """What was lent, column by column."""

    lanes: Sequence[int]
    moments: Sequence[int]
    """When each became ready."""
    generations: Sequence[int]
    claims: Sequence[Claim]

    @classmethod
    def read(cls, rows: Sequence[Row], seed: int, book: Book) -> Lot:
        """In the order of priority and time; each lane has its own priority."""
        first, others = _lent_first(rows[0], seed, book), _lent_again(rows[1:], seed, book)
        if not others.claims and len(set(first.lanes)) <= 1:
            return first
        return _in_order([*zip(*first, strict=True), *zip(*others, strict=True)], book)


NOTHING: Final = Lot((), (), (), [])


def _in_order(jobs: Iterable[tuple[int, int, int, Claim]], book: Book) -> Lot:
    priorities = {number: track.priority for number, track in book.items()}
    ordered = sorted(jobs, key=lambda job: (-priorities[job[0]], job[1], job[2]))
    lanes, moments, generations, claims = zip(*ordered, strict=True)
    return Lot(lanes, moments, generations, list(claims))


def _lent_again(rows: Sequence[Row], seed: int, book: Book) -> Lot:
    lanes, moments, generations = ([row[place] for row in rows] for place in (LANE, READY_AT, 0))
    return Lot(lanes, moments, generations, made_claims(rows, seed, book))


def _lent_first(row: Row, seed: int, book: Book) -> Lot:
    if row[GENERATIONS] is None:
        return NOTHING
    listed = row[GENERATIONS][1:-1]
    generations = [*map(int, listed.split(","))]
    lanes, moments = _each(row[LANES], len(generations)), _each(row[MOMENTS], len(generations))
    tracks = {number: book.track(number) for number in set(row[LANES])}  # now: the book may be closed later

    def claims() -> list[Claim]:
        tasks = {number: track.task for number, track in tracks.items()}
        queues = {number: track.queue for number, track in tracks.items()}
        instants = {moment: instant(moment) for moment in set(moments)}
        columns = zip(
            row[IDS],
            repeat(1),
            _nonces(listed, seed),
            map(tasks.__getitem__, lanes),
            map(queues.__getitem__, lanes),
            repeat(None),
            generations,
            _parted(row[ARGUMENTS]),
            repeat(0),
            repeat(0),
            repeat(0),
            repeat(0),
            repeat(object=False),
            map(instants.__getitem__, moments),
            repeat(None),
            repeat(None),
            _parted(row[CONTEXT]),
            strict=False,  # what is repeated has no end
        )
        return list(map(as_claim, columns))

    return Lot(lanes, moments, generations, Unread(len(generations), claims))


def _each(told: list[int], amount: int) -> list[int]:
    """What all of them have in common is told once."""
    return told * amount if len(told) == 1 else told


def _nonces(listed: str, seed: int) -> list[str]:
    common = prefix(seed, has_serial=False)
    return (common + listed.replace(",", f",{common}")).split(",")


def _parted(joined: str) -> list[str]:
    texts = joined.split(BORDER)
    has_marks = joined.count(BORDER[0]) >= len(texts)
    return [restored(text) for text in texts] if has_marks else texts
