"""The answer to a commit can get lost, on the way to the server or back: the receipt tells which it was."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.adapters.postgres.proxy import Proxy
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home

from duly import Ledger, Receipt, exactly_once
from duly.ledger import ReceiptState

pytestmark = pytest.mark.usefixtures("postgres_only")


@pytest.fixture
def proxy(home: Home) -> Iterator[Proxy]:
    host = str(conninfo_to_dict(home.url).get("host")) if not home.is_sqlite else ""
    if not host.startswith("/"):
        pytest.skip("the server is not on a local socket")
    folder = Path(tempfile.mkdtemp(prefix="duly-proxy-"))
    with closing(Proxy(folder, Path(host))) as made:
        yield made
    shutil.rmtree(folder)


@pytest.fixture
def shaky(home: Home, proxy: Proxy, open_ledger: OpenLedger) -> Ledger:
    """A ledger whose wire the test can cut."""
    host = str(conninfo_to_dict(home.url).get("host"))
    return open_ledger(home.url.replace(host, str(proxy.folder)), lease="10s")


def test_a_commit_whose_answer_was_lost_is_found_to_have_happened(
    home: Home, shaky: Ledger, proxy: Proxy
) -> None:
    @exactly_once(ledger=shaky, name="pay")
    def pay(receipt: Receipt) -> str:
        receipt.connection.execute(home.insert, ("rent", "body"))
        proxy.cut_after(b"COMMIT")
        return "paid"

    receipt = shaky.issue(pay).id

    assert pay(execution_id=receipt) == "paid"
    assert proxy.cuts == 1
    assert home.effects() == [("rent", "body")]
    view = shaky.get(receipt)
    assert view is not None
    assert view.state is ReceiptState.COMPLETED


async def test_so_it_is_for_an_async_body(home: Home, shaky: Ledger, proxy: Proxy) -> None:
    @exactly_once(ledger=shaky, name="pay")
    async def pay(receipt: Receipt) -> str:
        connection = await receipt.aconnection()
        await connection.execute(home.insert, ("rent", "body"))
        proxy.cut_after(b"COMMIT")
        return "paid"

    receipt = (await shaky.aissue(pay)).id

    assert await pay(execution_id=receipt) == "paid"
    assert proxy.cuts == 1
    assert home.effects() == [("rent", "body")]


def test_a_commit_that_never_reached_the_server_is_found_not_to_have_happened(
    home: Home, shaky: Ledger, proxy: Proxy
) -> None:
    @exactly_once(ledger=shaky, name="pay")
    def pay(what: str, receipt: Receipt) -> str:
        receipt.connection.execute(home.insert, (what, "body"))
        if what == "cut":
            # Checked when the transaction commits, so that it is the commit which fails.
            receipt.connection.execute(
                "create temporary table once (a int unique deferrable initially deferred)"
            )
            receipt.connection.execute("insert into once values (1), (1)")
        return "paid"

    receipt = shaky.issue(pay).id

    with pytest.raises(psycopg.errors.UniqueViolation):
        pay("cut", execution_id=receipt)
    assert home.effects() == []
    assert pay("rent", execution_id=receipt) == "paid"
    assert home.effects() == [("rent", "body")]


def test_a_connection_cut_in_the_body_leaves_nothing(home: Home, shaky: Ledger, proxy: Proxy) -> None:
    @exactly_once(ledger=shaky, name="pay")
    def pay(*, is_cut: bool, receipt: Receipt) -> str:
        receipt.connection.execute(home.insert, ("rent", "body"))
        if is_cut:
            proxy.cut()
        return "paid"

    receipt = shaky.issue(pay).id

    with pytest.raises(psycopg.OperationalError):
        pay(is_cut=True, execution_id=receipt)
    assert pay(is_cut=False, execution_id=receipt) == "paid"
    assert home.effects() == [("rent", "body")]


def test_a_claim_whose_answer_was_lost_is_ours_all_the_same(home: Home, shaky: Ledger, proxy: Proxy) -> None:
    @exactly_once(ledger=shaky, name="pay")
    def pay(receipt: Receipt) -> int:
        receipt.connection.execute(home.insert, ("rent", "body"))
        return receipt.epoch

    receipt = shaky.issue(pay).id
    proxy.cut_after(b"set state = 'pending', epoch")  # the claim itself
    assert pay(execution_id=receipt) == 1
    assert proxy.cuts == 1
