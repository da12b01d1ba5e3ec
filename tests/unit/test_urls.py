"""Passwords stay out of whatever is shown, however the place of a database was written."""

from __future__ import annotations

import pytest

from duly import DefinitionError, Ledger
from duly.errors import WrongConnection
from duly.stores.sqlite.caller import raw_connection
from duly.urls import masked

WAYS = [
    "postgresql://shop:s3cret@host/db",
    "postgresql://host/db?user=shop&password=s3cret",
    "host=localhost password=s3cret dbname=shop",
    "password=s3cret",
    "host=localhost password = 's3cret with \\' blanks' dbname=shop",
]


@pytest.mark.parametrize("written", WAYS)
def test_a_password_is_masked_wherever_it_stands(written: str) -> None:
    shown = masked(written)

    assert "s3cret" not in shown
    assert "blanks" not in shown
    assert "***" in shown


def test_the_rest_is_left_as_it_is() -> None:
    assert masked("host=h password=a dbname=d") == "host=h password=*** dbname=d"
    assert masked("postgresql://u@h/d?sslmode=require") == "postgresql://u@h/d?sslmode=require"


@pytest.mark.parametrize("written", WAYS)
@pytest.mark.parametrize("kind", [str, str.encode])
def test_an_error_about_what_was_given_does_not_show_it(written: str, kind: type) -> None:
    with pytest.raises(WrongConnection) as refused:
        raw_connection(kind(written))
    assert "s3cret" not in str(refused.value)

    if not written.startswith("postgresql:") or kind is not str:
        with pytest.raises(DefinitionError) as unknown:
            Ledger(kind(written))
        assert "s3cret" not in str(unknown.value)
