"""The Lua files: each says what it promises, all compile, and the server may forget them at any time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.contract.arrange import beat, claim_all, find, put, request, settle

from duly.job import State
from duly.lifecycle import Settled
from duly.stores.contract import Store
from duly.stores.redis import RedisStore, scripts
from duly.stores.redis.scripts import PARTS, script

LUA = Path(scripts.__file__).parent / "lua"
FILES = sorted(LUA.rglob("*.lua"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_opens_with_what_it_promises(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith(f"-- {path.stem}: ")


def test_every_file_belongs_to_an_operation() -> None:
    used = set(PARTS) | {part for parts in PARTS.values() for group in parts for part in group}

    assert {path.stem for path in FILES} == used


def test_every_operation_of_a_store_that_is_a_script_has_its_file() -> None:
    served_by_others = {"offer", "count", "search", "together"}
    names = {name for name in vars(Store) if not name.startswith("_")}
    driving = {
        "run",
        "arun",
        "run_on",
        "arun_on",
        "open",
        "close",
        "check_schema",
        "ring",
        "doorbell",
        "foresee",
    }

    assert names - driving - served_by_others <= set(PARTS)


@pytest.mark.parametrize("name", sorted(PARTS))
def test_every_script_compiles_under_the_name_we_call_it_by(client: Any, name: str) -> None:
    assert client.script_load(script(name).text) == script(name).sha


def test_a_server_that_forgot_its_scripts_is_taught_again(store: RedisStore, client: Any) -> None:
    put(store, request(), request("k"))
    client.script_flush()
    lent = claim_all(store)
    client.script_flush()
    beat(store, *lent)
    client.script_flush()

    assert [settle(store, one) for one in lent] == [Settled.SETTLED] * 2


def test_scripts_flushed_under_load_lose_and_double_nothing(store: RedisStore, client: Any) -> None:
    wanted = 300
    is_over = threading.Event()

    def flush() -> None:
        while not is_over.is_set():
            client.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    for number in range(wanted):
        put(store, request(id=f"j{number}"))
        for one in claim_all(store):
            settle(store, one)
    is_over.set()
    flusher.join()

    assert [job.state for job in find(store)] == [State.DONE] * wanted
    assert {job.epoch for job in find(store)} == {1}
