"""The JSON API: what it answers is what its description says."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.dashboard.arrange import OPERATOR, Shop

from duly import State


@pytest.fixture
def description(operator: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = operator.get("/api/openapi.json").json()
    return found


LOOKS = {
    "/api/summary": "",
    "/api/jobs": "?state=failed",
    "/api/jobs/{id}": "",
    "/api/workers": "",
    "/api/schedules": "",
    "/api/forecast": "?name=nightly",
    "/api/reactions": "",
    "/api/failures": "",
    "/api/pulse": "?task=shop.charge",
    "/api/search": "?text=declined",
    "/api/audit": "",
    "/api/preview": "?order=retry",
}


def test_every_operation_is_described_and_tried_below(description: dict[str, Any]) -> None:
    looks = {path for path, methods in description["paths"].items() if "get" in methods}

    assert looks == set(LOOKS)
    assert description["security"] == [{"token": []}]


@pytest.mark.parametrize("path", LOOKS)
def test_a_look_answers_what_is_described(
    shop: Shop, operator: TestClient, description: dict[str, Any], path: str
) -> None:
    [failed] = shop.fail(1)

    answer = operator.get(path.format(id=failed) + LOOKS[path])

    schema = description["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.status_code == 200
    assert fits(answer.json(), schema)


@pytest.mark.parametrize("path", ["/api/jobs", "/api/search"])
def test_a_page_that_is_short_is_not_described_as_the_last(description: dict[str, Any], path: str) -> None:
    schema = description["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]

    assert "may be short, or empty" in schema["properties"]["before"]["description"]
    assert "may be short" in description["paths"][path]["get"]["summary"]


KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """As much of JSON Schema as the description uses."""
    kinds: list[str] = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(isinstance(value, KINDS[kind]) for kind in kinds):
        return False
    if "properties" in schema:
        return all(name in value for name in schema["required"]) and all(
            fits(value[name], part) for name, part in schema["properties"].items() if name in value
        )
    return kinds != ["array"] or all(fits(one, schema["items"]) for one in value)


def test_jobs_come_in_pages(shop: Shop, operator: TestClient) -> None:
    jobs = [shop.charge.enqueue(order).id for order in range(5)]

    first = operator.get("/api/jobs?limit=3").json()
    second = operator.get(f"/api/jobs?limit=3&before={first['before']}").json()

    assert [job["id"] for job in [*first["jobs"], *second["jobs"]]] == jobs[::-1]
    assert second["before"] is None


def test_orders_by_id_say_what_they_changed_and_refused(shop: Shop, operator: TestClient) -> None:
    [failed] = shop.fail(1)

    answer = operator.post("/api/orders/jobs", json={"order": "retry", "ids": [failed, "nobody"]})

    assert answer.json() == {"changed": 1, "refused": {"nobody": "no job has this id"}, "refusals": 1}
    assert shop.app.jobs.get(failed).state is State.WAITING


def test_orders_by_filter_take_a_preview_and_act_on_it(shop: Shop, operator: TestClient) -> None:
    shop.fail(1, 2)
    preview = operator.get("/api/preview?order=retry&task=shop.charge").json()

    answer = operator.post(
        "/api/orders/matching",
        json={
            "order": "retry",
            "task": ["shop.charge"],
            "newest": preview["newest"],
            "seen_at": preview["seen_at"],
        },
    )

    assert preview["count"] == 2
    assert answer.json() == {"changed": 2, "refused": {}, "refusals": 0}


def test_lanes_and_schedules_obey(shop: Shop, operator: TestClient) -> None:
    lane = {"scope": "task", "name": "shop.charge"}

    answers = [
        operator.post("/api/orders/pause", json=lane),
        operator.post("/api/orders/resume", json=lane),
        operator.post("/api/orders/resume", json=lane),
        operator.post("/api/orders/schedule/pause", json={"name": "nightly"}),
        operator.post("/api/orders/schedule/resume", json={"name": "nightly"}),
        operator.post("/api/orders/schedule/edit", json={"name": "nightly", "cron": "0 3 * * *"}),
        operator.post("/api/orders/schedule/reset", json={"name": "nightly"}),
    ]

    assert [answer.json() for answer in answers] == [{"done": done} for done in (1, 1, 0, 1, 1, 1, 1)]
    triggered = operator.post("/api/orders/schedule/trigger", json={"name": "nightly"}).json()
    assert shop.app.jobs.get(triggered["id"]).task == "shop.report"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"order": "retry"}',
        b'{"order": "retry", "ids": []}',
        b'{"order": "explode", "ids": ["x"]}',
        b'{"order": "retry", "ids": "x"}',
        b'{"order": "retry", "ids": [7]}',
        b'{"order": "retry", "ids": ["x"], "more": 1}',
        b'{"order": "postpone", "ids": ["x"], "after": "soon"}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_body_that_is_not_as_described_is_refused_with_words(operator: TestClient, body: bytes) -> None:
    answer = operator.post("/api/orders/jobs", content=body)

    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/jobs/nobody", 404),
        ("/api/nothing", 404),
        ("/api/jobs?limit=0", 400),
        ("/api/jobs?limit=501", 400),
        ("/api/jobs?state=odd", 400),
        ("/api/preview?order=cancel&taks=shop.charge", 400),
        ("/api/forecast", 400),
        ("/api/forecast?name=nobody", 404),
        ("/api/forecast?name=nightly&cron=99+*+*+*+*", 409),
        ("/api/preview?order=retry&state=running", 409),
        ("/api/preview?order=explode", 400),
    ],
)
def test_a_question_that_means_nothing_is_refused_with_words(
    operator: TestClient, path: str, status: int
) -> None:
    answer = operator.get(path)

    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_a_wrong_token_is_told_so_in_json(shop: Shop) -> None:
    answer = shop.visit("not-the-token-at-all").get("/api/jobs")

    assert (answer.status_code, answer.json()) == (401, {"error": "This token opens nothing."})
    assert shop.visit(OPERATOR).get("/api/jobs").status_code == 200
