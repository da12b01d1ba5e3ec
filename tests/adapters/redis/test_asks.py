"""What is remembered of a worker's requests for work never speaks for another worker, nor for other terms."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract.arrange import TASK, ask

from duly.stores.contract import Ask, Lane
from duly.stores.redis import packing
from duly.stores.redis.packing import MOST_TOLD, Asks


def said(asks: Asks, wanted: Ask) -> dict[str, Any]:
    spoken: dict[str, Any] = json.loads(asks.text(wanted, "nonce", asked=7))
    return spoken


def test_other_terms_of_the_same_worker_are_said_anew() -> None:
    asks = Asks()
    said(asks, ask(lanes=[Lane(TASK)]))

    changed = said(asks, ask(lanes=[Lane("other")], queues=frozenset({"mail"}), limit=3))

    assert changed == said(Asks(), ask(lanes=[Lane("other")], queues=frozenset({"mail"}), limit=3))
    assert (changed["queues"], changed["limit"], changed["lanes"][0][0]) == (["mail"], 3, "other")


def test_more_workers_than_are_remembered_are_told_apart() -> None:
    asks = Asks()
    workers = [f"w{number}" for number in range(MOST_TOLD + 1)]

    spoken = [said(asks, ask(worker))["worker"] for worker in [*workers, "w0"]]

    assert spoken == [*workers, "w0"]


def test_the_same_terms_are_written_once_for_each_store(monkeypatch: pytest.MonkeyPatch) -> None:
    write: Any = packing._terms_text  # pyright: ignore[reportPrivateUsage]
    written: list[object] = []

    def listening(terms: object) -> Any:
        written.append(terms)
        return write(terms)

    monkeypatch.setattr(packing, "_terms_text", listening)

    for asks in (Asks(), Asks()):
        for limit in (1, 2, 3):
            said(asks, ask(limit=limit))

    assert len(written) == 2
