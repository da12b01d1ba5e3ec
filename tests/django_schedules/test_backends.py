"""Schedules and the guard on backends that are not ours, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.django.site import ROOT, postgres_database
from tests.servers import postgres_url
from tests.servers_redis import RedisServer, private_server

from duly.ids import new_nonce

pytestmark = [pytest.mark.chaos, pytest.mark.redis]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with private_server(tmp_path) as server:
        yield server


def own_database() -> dict[str, str]:
    """What a process must be told to have a PostgreSQL database for its own."""
    name = f"own_{new_nonce()[:8]}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    words = {**postgres_database(postgres_url()), "NAME": name}
    return {"DULY_SITE_DATABASES": json.dumps({"default": words, "other": words})}


def tell(program: str, folder: Path, **variables: str) -> Any:
    """Run a program of the project to its end; what it printed last."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.django_schedules.programs.{program}"],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.django_schedules.settings",
            "DULY_SITE_FOLDER": str(folder),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_on_rq_each_tick_has_one_effect_whatever_is_delivered_twice_or_killed(
    tmp_path: Path, redis: RedisServer
) -> None:
    told = tell("rq_story", tmp_path, SITE_REDIS=str(redis.socket))

    ticks = [f"billing@2026-11-16T12:0{minute}:00Z" for minute in range(1, 5)]
    assert told["delivered"] == 4
    assert told["after_death"] == []  # the worker died in the body
    assert told["marks"] == ticks
    assert [(name, status) for name, status, _ in told["rows"]] == [(tick, "completed") for tick in ticks]
    assert sorted(claims for *_, claims in told["rows"]) == [1, 1, 1, 2]


@pytest.mark.postgres
def test_of_two_workers_with_one_execution_the_second_skips_and_is_free(
    tmp_path: Path, redis: RedisServer
) -> None:
    told = tell("rq_pair", tmp_path, SITE_REDIS=str(redis.socket), **own_database())

    assert told["meanwhile"] == {"marks": ["other work"], "begun": 1}
    assert told["marks"] == ["other work", "slow@2026-11-16T12:01:00Z"]
    assert told["rows"] == [["completed", 1]]
    assert (told["begun"], told["codes"]) == (1, [0, 0])


def test_a_tick_reaches_its_task_on_every_backend(tmp_path: Path) -> None:
    told = tell("each_backend", tmp_path)

    names = ["database", "default", "immediate", "stock"]
    assert told["marks"] == [*(f"bill {name}" for name in names), *(f"noted {name}" for name in names)]
    assert told["handed_over"] == [1] * 8
    assert {status for _, status in told["rows"]} == {"completed"}
