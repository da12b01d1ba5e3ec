"""Claims that are made when somebody looks at them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from tests.unit.worker.arrange import holding_of

from duly import Duly
from duly.job import Claim
from duly.stores.lent import Unread


def test_claims_are_counted_without_being_made_and_made_once() -> None:
    made = list[int]()
    claim = _claim()

    def make() -> list[Claim]:
        made.append(1)
        return [claim, claim]

    lent = Unread(2, make)

    assert (len(lent), bool(lent), made) == (2, True, [])
    assert (lent[0], lent[1:], list(lent), made) == (claim, [claim], [claim, claim], [1])


def test_claims_are_equal_whoever_has_made_them() -> None:
    claim = _claim()

    assert Unread(1, lambda: [claim]) == Unread(1, lambda: [claim]) == [claim]
    assert Unread(1, lambda: [claim]) != [claim, claim]


def test_claims_of_postgres_can_be_read_when_the_store_is_closed_meanwhile() -> None:
    pytest.importorskip("psycopg")
    from duly.stores.postgres.operations import lot
    from duly.stores.postgres.operations.lanes import Book

    book = Book()
    book.learn([(1, "default", "send", 0)])
    row: list[Any] = [None] * (lot.PROSPECTS + 1)
    row[lot.IDS], row[lot.GENERATIONS], row[lot.LANES], row[lot.MOMENTS] = ["j1", "j2"], "{1,2}", [1], [0]
    row[lot.ARGUMENTS], row[lot.CONTEXT] = lot.BORDER.join(["[]", "{}"]), lot.BORDER.join(["{}", "{}"])

    lent = lot.Lot.read([tuple(row)], 7, book)
    book.forget()

    assert [(claim.id, claim.task) for claim in lent.claims] == [("j1", "send"), ("j2", "send")]


def _claim() -> Claim:
    with closing(Duly("memory://")) as app:
        return holding_of(app).claim
