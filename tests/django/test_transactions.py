"""A job exists if and only if the transaction it was asked for in was committed, where that can be."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.django.conftest import empty
from tests.django.project.shop import tasks
from tests.django.project.shop.models import Mark
from tests.django.site import call
from tests.servers_redis import namespace_of, shared_url

from duly.django import compat, engine
from duly.django.place import database_url, place_of
from duly.errors import DefinitionError

Status: Any = compat.TaskResultStatus
atomic: Any = compat.transaction.atomic


class Undone(Exception):
    """Rolls a transaction back."""


@contextmanager
def undone(alias: str = "default") -> Generator[None]:
    """A transaction that is rolled back."""
    with suppress(Undone), atomic(using=alias):
        yield
        raise Undone


@contextmanager
def settings(**changes: Any) -> Generator[None]:
    """Other settings for a while."""
    from django.test.utils import override_settings

    with override_settings(**changes):
        yield


def options(**words: Any) -> dict[str, Any]:
    """TASKS with one backend of ours."""
    return {"default": {"BACKEND": "duly.django.DulyBackend", "OPTIONS": words}}


@pytest.mark.parametrize("words", [{}, {"key": "lease:42"}])
def test_a_job_is_there_if_and_only_if_the_transaction_commits(backend: str, words: dict[str, Any]) -> None:
    used = tasks.mark.using(backend=backend, **words)

    with atomic(using=backend):
        Mark.objects.using(backend).create(text="row")
        kept = used.enqueue("job", backend)
    other = used.using(**({"key": "lease:43"} if words else {}))
    dropped: list[Any] = []
    with undone(backend):
        dropped.append(other.enqueue("undone", backend))
    engine(backend).run(burst=True)

    assert used.get_result(kept.id).status == Status.SUCCESSFUL
    with pytest.raises(compat.TaskResultDoesNotExist):
        used.get_result(dropped[0].id)
    assert sorted(mark.text for mark in Mark.objects.using(backend).all()) == ["job", "row"]


def test_a_result_can_be_asked_for_in_the_transaction_that_made_it(backend: str) -> None:
    used = tasks.mark.using(backend=backend)

    with atomic(using=backend):
        result = used.enqueue("job", backend)
        found = used.get_result(result.id)

    assert found.status == Status.READY
    assert found.args == ["job", backend]


def test_a_savepoint_that_is_undone_takes_its_job_along(backend: str) -> None:
    used = tasks.mark.using(backend=backend)

    with atomic(using=backend):
        used.enqueue("outer", backend)
        with undone(backend):
            used.enqueue("inner", backend)
    engine(backend).run(burst=True)

    assert [mark.text for mark in Mark.objects.using(backend).all()] == ["outer"]


def test_a_transaction_of_another_database_changes_nothing(default: str) -> None:
    with undone("other"):
        tasks.mark.enqueue("job")

    assert engine().jobs.count() == 1


def test_a_backend_can_wait_for_the_commit_of_another_database(default: str) -> None:
    with settings(TASKS=options(enqueue_on_commit="other")):
        with undone("other"):
            tasks.mark.enqueue("undone")
        with atomic(using="other"):
            result = tasks.mark.enqueue("job")
            before = engine().jobs.count()
        outside = tasks.mark.enqueue("at once")

        ids = {job.id for job in engine().jobs.list()}

    assert before == 0
    assert ids == {result.id, outside.id}


@pytest.mark.postgres
def test_a_backend_can_refuse_to_join() -> None:
    from tests.django.site import add_postgres

    add_postgres()
    empty("postgres")
    with settings(TASKS=options(database="postgres", enqueue_on_commit=False)):
        with undone("postgres"):
            tasks.mark.enqueue("stays")

        assert engine().jobs.count() == 1


def test_jobs_go_to_the_database_that_their_backend_names(default: str) -> None:
    empty("other")

    tasks.mark.using(backend="other").enqueue("there", "other")

    assert (engine("default").jobs.count(), engine("other").jobs.count()) == (0, 1)


@pytest.mark.redis
def test_jobs_for_another_store_leave_with_the_commit_through_the_outbox(default: str, tmp_path: Any) -> None:
    words = {"url": shared_url(), "namespace": namespace_of(tmp_path), "enqueue_on_commit": True}
    with settings(TASKS=options(**words)):
        call("migrate", "duly", "zero", verbosity=0)
        call("migrate", verbosity=0)
        with undone():
            tasks.mark.enqueue("undone")
        with atomic():
            result = tasks.mark.enqueue("job")
            arrived = engine().jobs.count()
        waiting = tasks.mark.get_result(result.id).status
        engine().run(burst=True)
        ended = tasks.mark.get_result(result.id).status
        engine().close()
    call("migrate", "duly", "zero", verbosity=0)
    call("migrate", verbosity=0)

    assert (arrived, waiting, ended) == (0, Status.READY, Status.SUCCESSFUL)
    assert [mark.text for mark in Mark.objects.all()] == ["job"]


@pytest.mark.redis
def test_jobs_for_another_store_go_there_at_once_unless_told_to_wait(default: str, tmp_path: Any) -> None:
    with settings(TASKS=options(url=shared_url(), namespace=namespace_of(tmp_path))):
        with undone():
            tasks.mark.enqueue("job")
        arrived = engine().jobs.count()
        engine().close()

    assert arrived == 1


# --- engines ------------------------------------------------------------------------------------------


def test_there_is_one_engine_for_one_place(default: str) -> None:
    assert engine() is engine("default")
    assert engine("other") is not engine("default")


def test_threads_share_the_engine_though_each_has_a_backend(default: str) -> None:
    found: list[Any] = []

    def look() -> None:
        found.append((compat.task_backends["default"], engine()))

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    (one, first), (other, second) = found
    assert one is not other
    assert first is second


def test_an_engine_follows_the_database_that_takes_anothers_place(default: str, tmp_path: Any) -> None:
    before = engine()
    connection: Any = compat.connections["default"]
    name = connection.settings_dict["NAME"]

    connection.settings_dict["NAME"] = str(tmp_path / "test.sqlite3")
    during = engine()
    connection.settings_dict["NAME"] = name

    assert during.settings.url == f"sqlite:///{tmp_path}/test.sqlite3"
    assert engine().settings.url == before.settings.url
    during.close()


def test_an_unknown_backend_is_named_with_those_there_are() -> None:
    with pytest.raises(DefinitionError, match=r"no backend 'third'.*default.*other"):
        engine("third")


@pytest.mark.parametrize(
    ("words", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        ({"NAME": "shop", "USER": "me", "PASSWORD": "a/b:c@"}, "postgresql://me:a%2Fb%3Ac%40@/shop"),
        (
            {"NAME": "shop", "HOST": "db", "PORT": 5433, "OPTIONS": {"sslmode": "require", "pool": True}},
            "postgresql://db:5433/shop?sslmode=require",
        ),
        (
            {"NAME": "shop", "HOST": "/run/pg", "PORT": "5433"},
            "postgresql:///shop?host=%2Frun%2Fpg&port=5433",
        ),
        ({"NAME": "shop", "HOST": "::1"}, "postgresql://[::1]/shop"),
        ({"NAME": "", "OPTIONS": {"service": "shop"}}, "postgresql:///?service=shop"),
    ],
)
def test_the_url_of_a_database_is_read_from_its_settings(words: dict[str, Any], url: str) -> None:
    handler: Any = compat.connections
    handler.settings["sketch"] = {"ENGINE": "django.db.backends.postgresql", **words}
    handler.configure_settings(handler.settings)

    found = database_url("sketch")
    del handler["sketch"], handler.settings["sketch"]

    assert found == url


def test_the_setting_duly_holds_for_all_engines() -> None:
    with settings(DULY={"lease": "7s", "database": "other"}):
        place = place_of({"lease": "9s"})

    assert dict(place.options) == {"lease": "9s"}
    assert place.database == "other"
