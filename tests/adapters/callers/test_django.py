"""With Django's connection: atomic blocks decide, and its on_commit rings the doorbell."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.callers.arrange import Shop
from tests.servers import postgres_schema, postgres_url
from tests.stories.arrange import until, working

PROGRAM = Path(__file__).with_name("programs") / "django_site.py"

Story = dict[str, Any]


@cache
def played(store: str) -> dict[str, Story]:
    """What came of every scenario, on a site that ran once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        url = postgres_url() if store == "postgres" else f"sqlite:///{path / 'site.db'}"
        namespace = postgres_schema(path) if store == "postgres" else "duly"
        return run_site(url, namespace, f"sqlite:///{path / 'other.db'}")


def run_site(*arguments: str) -> dict[str, Story]:
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Story] = json.loads(done.stdout)
    return answers


@pytest.fixture(params=["postgres", "sqlite"])
def site(request: pytest.FixtureRequest) -> dict[str, Story]:
    return played(request.param)


def test_the_end_of_an_atomic_block_makes_the_jobs_visible_and_rings(site: dict[str, Story]) -> None:
    assert site["commit"] == {"before": [], "early": 0, "after": [1, 2], "rung": 1}


def test_an_atomic_block_that_fails_leaves_nothing_and_rings_nobody(site: dict[str, Story]) -> None:
    assert site["rollback"] == {"after": [], "rung": 0}


def test_blocks_in_blocks_are_kept_or_undone_each_for_itself(site: dict[str, Story]) -> None:
    assert site["nested"] == {"after": [1, 3], "rung": 1, "callbacks": 1}


def test_a_ring_asked_for_in_a_block_that_was_undone_is_asked_for_again(site: dict[str, Story]) -> None:
    assert site["first_in_a_savepoint_that_is_undone"] == {"after": [2], "rung": 1}


def test_a_transaction_asks_for_one_ring_however_many_requests_it_makes(site: dict[str, Story]) -> None:
    assert site["once"] == {"callbacks": 1, "rung": 1}


def test_outside_of_atomic_blocks_the_jobs_are_there_at_once(site: dict[str, Story]) -> None:
    assert site["autocommit"] == {"after": [1, 2], "rung": 2}


def test_transactions_by_hand_decide_too(site: dict[str, Story]) -> None:
    assert site["by_hand"] == {"after": [1]}


def test_only_the_alias_of_the_stores_database_will_do(site: dict[str, Story]) -> None:
    story = site["by_alias"]

    assert story["after"] == [1]
    assert story["refusal"].startswith("WrongConnection")


def test_a_block_that_will_be_rolled_back_takes_no_more_requests(site: dict[str, Story]) -> None:
    story = site["broken"]

    assert story["after"] == []
    assert story["refusal"].startswith("WrongConnection: An error inside this atomic block")


def test_a_request_that_is_atomic_decides(site: dict[str, Story]) -> None:
    assert site["atomic_requests"] == {"before": [], "bad": 500, "after": [1], "rung": 1}


def test_a_test_case_of_django_leaves_nothing_behind(site: dict[str, Story]) -> None:
    assert site["test_case"] == {"before": [], "failures": 0, "after": []}


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_an_idle_worker_elsewhere_starts_the_job_right_after_the_commit(
    open_shop: Callable[[str], Shop], store: str
) -> None:
    shop = open_shop(store)
    elsewhere: Any = shop.open_branch(poll="10m")
    with working(elsewhere):
        shop.send_receipt.enqueue(0)
        assert shop.ran.wait(60)
        until(lambda: elsewhere.store.describe()["bell"] in ("listening", "sockets"))
        shop.ran.clear()

        run_site(shop.url, shop.namespace, "sqlite:///:memory:", "save")

        assert shop.ran.wait(60)
