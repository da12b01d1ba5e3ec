"""Requirements 5 and 6: what a save asks for, on each queue. No worker runs: nothing is taken away."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.orders.project import Console, Project

COUNT = """
import base64
import redis
from duly import codec
from duly.django import engine
is_celery = settings.ORDERS_QUEUE == "celery"
broker = is_celery and redis.Redis.from_url(settings.CELERY_BROKER_URL.replace("redis+socket", "unix"))
def requests(pk):
    'Arguments of what is to run within the window.'
    if not is_celery:
        found = engine().jobs.list(key=f"lease:{pk}", state="waiting")
        return [codec.unpack(job.arguments)[0] for job in found if job.ready_at - job.created_at < window]
    return [codec.unpack(one["arguments"])[0] for one in packets(pk) if not one["is_trailing"]]
def packets(pk):
    messages = [json.loads(text) for text in broker.lrange("celery", 0, -1)]
    found = [json.loads(base64.b64decode(message["body"]))[1]["packet"] for message in messages]
    return [one for one in found if one["key"] == f"lease:{pk}"]
window = timedelta(seconds=60)
"""


@pytest.fixture
def site(console: Console) -> Console:
    console.ask(COUNT)
    return console


def test_5_1_p8_p11_a_lease_is_asked_for_once_in_a_window_whoever_saves_it(site: Console) -> None:
    found = site.ask(
        "one = lease('L1')\n"
        "for name in ('ann', 'bob', 'cecil', 'ann'):\n"
        "    one.requested_by = user(name)\n"
        "    one.save()\n"
        "answer = len(requests(one.pk))"
    )

    assert found == 1


def test_5_1_p11_saves_at_the_same_moment_by_many_users_ask_once(site: Console) -> None:
    found = site.ask(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from django.db import connections\n"
        "one = Lease.objects.create(number='L1')\n"
        "def save(name):\n"
        "    signals.request_discovery(one.pk, user(name).pk)\n"
        "    connections.close_all()\n"
        "with ThreadPoolExecutor(5) as pool:\n"
        "    list(pool.map(save, [f'user {number}' for number in range(10)]))\n"
        "answer = len(requests(one.pk))"
    )

    assert found == 1


def test_5_1_another_lease_is_not_held_back(site: Console) -> None:
    found = site.ask("both = lease('L1'), lease('L1')\nanswer = [len(requests(one.pk)) for one in both]")

    assert found == [1, 1]


def test_5_2_p8_the_window_is_120_seconds_for_one_lease(site: Console, project: Project) -> None:
    if project.is_celery:
        seconds = site.ask(
            "one = lease('L1')\n"
            "name = f'{{duly}}:celery:window:orders.tasks.full_runsheet_discovery_task|lease:{one.pk}'\n"
            "answer = broker.pttl(name) / 1000"
        )
    else:
        seconds = site.ask(
            "one = lease('L1')\n"
            "engine().jobs.cancel(engine().jobs.list(key=f'lease:{one.pk}')[0].id)\n"
            "one.save()\n"  # inside the window, with nothing waiting: it is due when the window ends
            "(job,) = engine().jobs.list(key=f'lease:{one.pk}', state='waiting')\n"
            "answer = (job.ready_at - job.created_at).total_seconds()"
        )

    assert 110 < seconds <= 120


def test_5_2_the_last_save_of_a_window_is_not_lost(site: Console, project: Project) -> None:
    """A job that still waits takes the newest arguments; a message cannot, so there another one trails."""
    asked, pk, ann, bob = site.ask(
        "one = lease('L1', 'ann')\n"
        "one.requested_by = user('bob')\n"
        "one.save()\n"
        "answer = [requests(one.pk), one.pk, user('ann').pk, user('bob').pk]"
    )

    if not project.is_celery:
        assert asked == [[pk, bob]]
    else:
        newest = site.ask(
            "(trailing,) = [packet for packet in packets(one.pk) if packet['is_trailing']]\n"
            "answer = codec.unpack(broker.get(f'{{duly}}:celery:newest:{trailing[\"id\"]}').decode())[0]"
        )
        assert (asked, newest) == ([[pk, ann]], [pk, bob])


def test_a_save_of_what_the_tasks_found_asks_for_nothing(site: Console) -> None:
    found = site.ask(
        "one = Lease.objects.create(number='L1')\n"
        "one.requested_by = user('ann')\n"
        "one.directory = '/leases/L1'\n"
        "one.save(update_fields=['directory'])\n"
        "answer = [len(requests(one.pk))]\n"
        "one.save()\n"
        "answer.append(len(requests(one.pk)))"
    )

    assert found == [0, 1]


def test_a_lease_that_nobody_asked_for_starts_nothing(site: Console) -> None:
    assert site.ask("answer = len(requests(Lease.objects.create(number='L1').pk))") == 0


# --- 6: on commit -----------------------------------------------------------------------------------


def test_6_1_p9_nothing_is_asked_for_before_the_commit(site: Console) -> None:
    found = site.ask(
        "with transaction.atomic():\n"
        "    one = lease('L1')\n"
        "    answer = [len(connection.run_on_commit) >= 1, len(requests(one.pk))]\n"
        "answer.append(len(requests(one.pk)))"
    )

    assert found == [True, 0, 1]


def test_6_1_p9_a_save_that_is_rolled_back_asks_for_nothing_and_holds_nobody_back(site: Console) -> None:
    found = site.ask(
        "one = Lease.objects.create(number='L1')\n"
        "ann = user('ann')\n"
        "try:\n"
        "    with transaction.atomic():\n"
        "        one.requested_by = ann\n"
        "        one.save()\n"
        "        raise RuntimeError\n"
        "except RuntimeError: pass\n"
        "answer = [len(requests(one.pk))]\n"
        "one.save()\n"
        "answer.append(len(requests(one.pk)))"
    )

    assert found == [0, 1]


@pytest.mark.redis
@pytest.mark.parametrize("project", ["celery"], indirect=True)
def test_6_1_the_celery_backend_can_wait_for_the_commit_by_itself(site: Console) -> None:
    found = site.ask(
        "from duly.django.compat import task_backends\n"
        "options = task_backends['default'].options\n"
        "options['enqueue_on_commit'] = True\n"
        "one = Lease.objects.create(number='L1')\n"
        "ann = user('ann')\n"
        "with transaction.atomic():\n"
        "    signals.request_discovery(one.pk, ann.pk)\n"
        "    answer = [len(requests(one.pk))]\n"
        "answer.append(len(requests(one.pk)))\n"
        "del options['enqueue_on_commit']"
    )

    assert found == [0, 1]


# --- 5.3: the store is away -------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["refused", "stalled", "celery"])
def lonely(request: pytest.FixtureRequest, folder: Path, cloud: Any) -> Iterator[Console]:
    """A project whose queue cannot be reached, or answers to nobody."""
    place = folder / f"lonely {request.param}"
    place.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if request.param == "stalled" else 1
        url = f"redis://127.0.0.1:{port}/0"
        queue = "celery" if request.param == "celery" else f"{url}?timeout=1s"
        project = Project(place, cloud, queue=queue, environment={"ORDERS_BROKER": url})
        project.migrate()
        console = project.console()
        yield console
        console.close()


def test_5_3_p8_a_save_is_neither_failed_nor_held_up_when_the_store_is_away(lonely: Console) -> None:
    found = lonely.ask(
        "who = user('ann')\n"
        "before, began = len(lines), time.monotonic()\n"
        "one = Lease.objects.create(number='L1', requested_by=who)\n"
        "took = time.monotonic() - began\n"
        "answer = [Lease.objects.filter(pk=one.pk).exists(), took, one.pk, who.pk, lines[before:]]"
    )
    exists, took, pk, user, lines = found

    assert exists
    assert took < 30
    assert [line for line in lines if "was not requested" in line]
    assert all(f"lease_id={pk} user_id={user} " in line for line in lines)


@pytest.mark.redis
@pytest.mark.parametrize("project", ["celery"], indirect=True)
def test_5_3_what_could_not_be_asked_for_holds_nobody_back(site: Console) -> None:
    """The guard and the request are one write on Duly; on Celery the guard is taken back."""
    found = site.ask(
        "from unittest.mock import patch\n"
        "from kombu.exceptions import OperationalError\n"
        "from orders_site.celery import app\n"
        "one = Lease.objects.create(number='L1')\n"
        "carrier = app.tasks['orders.tasks.full_runsheet_discovery_task']\n"
        "with patch.object(type(carrier), 'apply_async', side_effect=OperationalError('away')):\n"
        "    signals.request_discovery(one.pk, user('ann').pk)\n"
        "answer = [len(requests(one.pk))]\n"
        "signals.request_discovery(one.pk, user('ann').pk)\n"
        "answer.append(len(requests(one.pk)))"
    )

    assert found == [0, 1]
