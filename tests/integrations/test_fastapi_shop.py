"""The FastAPI example does what it says."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.stories.arrange import until

SHOP = Path(__file__).parents[2] / "examples" / "fastapi_shop" / "shop.py"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, loaded anew on a file of this test's."""
    monkeypatch.setenv("SHOP_FILE", str(tmp_path / "shop.db"))
    spec = importlib.util.spec_from_file_location("fastapi_shop_example", SHOP)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    yield module
    module.app.close()


def test_an_order_is_confirmed_by_the_worker_of_the_web_process(shop: Any) -> None:
    with TestClient(shop.site) as client:
        made = client.post("/orders", params={"customer": "ann", "total": 20})
        number = made.json()["order"]

        until(lambda: client.get(f"/orders/{number}").json()["confirmation"] == "done")

        assert made.status_code == 201
        assert client.get("/health").json() == {"worker": "ok"}


def test_an_order_that_is_rolled_back_leaves_no_job(shop: Any) -> None:
    with closing(sqlite3.connect(shop.FILE)) as database:
        database.execute("create trigger refuse before update on orders begin select raise(abort, 'no'); end")

    with TestClient(shop.site, raise_server_exceptions=False) as client:
        answer = client.post("/orders", params={"customer": "ann", "total": 20})

        assert answer.status_code == 500
        assert client.get("/orders/1").status_code == 404
        assert shop.app.jobs.count(task=shop.confirm) == 0
