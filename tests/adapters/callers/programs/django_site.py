"""A Django site with two databases, the first of them shared with a store.

    django_site.py URL NAMESPACE OTHER [SCENARIO]

Plays every scenario of the list at the end, or the one that is named, and prints what came of each as one
JSON object: what a worker found while the transaction was open and after it, or the error. A process of its
own, because Django is configured once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any
from unittest import TestResult, TestSuite

from psycopg.conninfo import conninfo_to_dict

URL, NAMESPACE, OTHER, *NAMED = sys.argv[1:]


def database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        options = {"transaction_mode": "IMMEDIATE"}
        path = url.removeprefix("sqlite:///")
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path,
            "OPTIONS": options,
            "TEST": {"NAME": path},
        }
    given = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "HOST": given["host"],
        "TIME_ZONE": "Asia/Tokyo",
    }


settings: Any = import_module("django.conf").settings
settings.configure(
    DATABASES={"default": database(URL) | {"ATOMIC_REQUESTS": True}, "other": database(OTHER)},
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["testserver"],
    SECRET_KEY="only for this program",
    LOGGING_CONFIG=None,
    USE_TZ=True,
)

# By name, because Django ships without types; and only now, after the settings.
django: Any = import_module("django")
db: Any = import_module("django.db")
http: Any = import_module("django.http")
urls: Any = import_module("django.urls")
testing: Any = import_module("django.test")
connection, connections, transaction = db.connection, db.connections, db.transaction

from duly import Duly  # noqa: E402
from duly.stores.contract import Ask, Lane  # noqa: E402

django.setup()

app = Duly(URL, namespace=NAMESPACE)


@app.task(name="send_receipt")
def send_receipt(scenario: str, order: int) -> None: ...


ASK = Ask("w", {"send_receipt": Lane("send_receipt")}, timedelta(seconds=30), limit=100, free=100)


STORE: Any = app.store
DRIVER: Any = getattr(STORE, "driver", STORE)
RING: Any = DRIVER.ring


class Undone(Exception):
    """Rolls back."""


class Scene:
    """One scenario: what it asks for, and what is seen of that."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rung = 0
        DRIVER.ring = self._counting

    def _counting(self) -> None:
        self.rung += 1
        RING()

    def ask(self, order: int, using: Any = connection, **wishes: Any) -> None:
        send_receipt.using(connection=using, **wishes).enqueue(self.name, order)

    def seen(self) -> list[int]:
        """The orders of this scenario that a worker has found."""
        if not connection.in_atomic_block or connection.vendor != "sqlite":
            app.store.run(app.store.claim(ASK))
        found = [json.loads(job.arguments)[0] for job in app.jobs.list(task="send_receipt")]
        return sorted(order for scenario, order in found if scenario == self.name)


def atomic(using: str = "default", *, savepoint: bool = True) -> Any:
    return transaction.atomic(using=using, savepoint=savepoint)


def commit(scene: Scene) -> Any:
    with atomic():
        scene.ask(1)
        scene.ask(2, key=f"key of {scene.name}")
        before, early = scene.seen(), scene.rung
    return {"before": before, "early": early, "after": scene.seen(), "rung": scene.rung}


def rollback(scene: Scene) -> Any:
    try:
        with atomic():
            scene.ask(1)
            scene.ask(2, key=f"key of {scene.name}")
            raise Undone
    except Undone:
        pass
    return {"after": scene.seen(), "rung": scene.rung}


def nested(scene: Scene) -> Any:
    with atomic():
        with atomic():
            scene.ask(1)
        try:
            with atomic():
                scene.ask(2)
                raise Undone
        except Undone:
            pass
        with atomic(savepoint=False):
            scene.ask(3)
        callbacks = len(connection.run_on_commit)
    return {"after": scene.seen(), "rung": scene.rung, "callbacks": callbacks}


def first_in_a_savepoint_that_is_undone(scene: Scene) -> Any:
    with atomic():
        try:
            with atomic():
                scene.ask(1)
                raise Undone
        except Undone:
            pass
        scene.ask(2)
    return {"after": scene.seen(), "rung": scene.rung}


def once(scene: Scene) -> Any:
    with atomic():
        for order in range(5):
            scene.ask(order)
        callbacks = len(connection.run_on_commit)
    return {"callbacks": callbacks, "rung": scene.rung}


def autocommit(scene: Scene) -> Any:
    scene.ask(1)
    scene.ask(2, key=f"key of {scene.name}")
    return {"after": scene.seen(), "rung": scene.rung}


def by_hand(scene: Scene) -> Any:
    transaction.set_autocommit(False)
    try:
        scene.ask(1)
        transaction.commit()
        scene.ask(2)
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    return {"after": scene.seen()}


def by_alias(scene: Scene) -> Any:
    refusal = ""
    with atomic("default"), atomic("other"):
        scene.ask(1, connections["default"])
        try:
            scene.ask(2, connections["other"])
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}"
    return {"after": scene.seen(), "refusal": refusal}


def broken(scene: Scene) -> Any:
    refusal = ""
    with atomic():
        scene.ask(1)
        try:
            with atomic(savepoint=False):
                raise Undone
        except Undone:
            pass
        try:
            scene.ask(2)
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}"
    return {"after": scene.seen(), "refusal": refusal}


def view(request: Any, order: int) -> Any:
    requests[0].ask(order)
    if order < 0:
        raise Undone
    return http.HttpResponse(json.dumps(requests[0].seen()))


urlpatterns = [urls.path("good", view, {"order": 1}), urls.path("bad", view, {"order": -1})]
requests: list[Scene] = []


def atomic_requests(scene: Scene) -> Any:
    requests.append(scene)
    client = testing.Client(raise_request_exception=False)
    good, bad = client.get("/good"), client.get("/bad")
    return {
        "before": json.loads(good.content),
        "bad": bad.status_code,
        "after": scene.seen(),
        "rung": scene.rung,
    }


def test_case(scene: Scene) -> Any:
    before: list[int] = []

    def body(case: Any) -> None:
        with case.captureOnCommitCallbacks(execute=True):
            scene.ask(1)
        with atomic():
            scene.ask(2)
        before.extend(scene.seen())

    made = type("Case", (testing.TestCase,), {"databases": {"default"}, "runTest": body})
    result = TestResult()
    TestSuite([made()]).run(result)
    return {"before": before, "failures": len(result.failures + result.errors), "after": scene.seen()}


def save(scene: Scene) -> Any:
    """No more than a site does: there is a worker elsewhere."""
    with atomic():
        scene.ask(1)
    return None


SCENARIOS: list[Callable[[Scene], Any]] = [
    commit,
    rollback,
    nested,
    first_in_a_savepoint_that_is_undone,
    once,
    autocommit,
    by_hand,
    by_alias,
    broken,
    atomic_requests,
    test_case,
]

app.open()
answers: dict[str, Any] = {}
for play in [save] if NAMED == ["save"] else SCENARIOS:
    scene = Scene(play.__name__)
    try:
        answers[play.__name__] = play(scene)
    except Exception as error:
        answers[play.__name__] = {"error": f"{type(error).__name__}: {error}"}
connections.close_all()
app.close()
sys.stdout.write(json.dumps(answers))
sys.stdout.flush()
os._exit(0)
