"""What the pages show, and what they never show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from tests.dashboard.arrange import OPERATOR, Shop

from duly import Duly, State
from duly.dashboard import asgi
from duly.dashboard.timeline import draw
from duly.testing import virtual

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}'


def ids_on(page: str) -> list[str]:
    return re.findall(r'data-href="/jobs/(\w+)"', page)


# --- the list -------------------------------------------------------------------------------------


def test_pages_of_the_list_show_every_job_once_newest_first(shop: Shop, operator: TestClient) -> None:
    jobs = [shop.charge.enqueue(order).id for order in range(120)]

    seen: list[str] = []
    path: str | None = "/jobs"
    while path is not None:
        page = operator.get(path).text
        seen += ids_on(page)
        found = re.findall(r'rel="next" href="([^"]+)"', page)
        path = unescape(found[0]) if found else None

    assert seen == jobs[::-1]


@pytest.mark.parametrize(
    ("query", "orders"),
    [
        ("state=failed", {1, 2}),
        ("state=done", {3}),
        ("key=order:2", {2}),
        ("error=ORDER+1+WAS", {1}),
        ("task=shop.charge&state=failed&key=order:1", {1}),
        ("task=shop.nothing", set[int]()),
        ("queue=default", {1, 2, 3}),
    ],
)
def test_filters_in_the_address_choose_the_jobs(
    shop: Shop, operator: TestClient, query: str, orders: set[int]
) -> None:
    jobs = dict(
        zip([1, 2, 3], [*shop.fail(1, 2), shop.charge.using(key="order:3").enqueue(3).id], strict=True)
    )
    shop.clock.run_due()

    page = operator.get(f"/jobs?{query}").text

    assert set(ids_on(page)) == {jobs[order] for order in orders}


def test_the_engines_own_jobs_are_shown_to_who_asks_for_them(shop: Shop, operator: TestClient) -> None:
    shop.clock.run_due()  # the schedule has a job of its own now

    assert ids_on(operator.get("/jobs").text) == []
    assert len(ids_on(operator.get("/jobs?queue=duly.schedules").text)) == 1


@pytest.mark.parametrize("query", ["state=odd", "before=-1", "before=one", f"key={'x' * 501}"])
def test_an_address_that_means_nothing_is_refused_with_words(operator: TestClient, query: str) -> None:
    answer = operator.get(f"/jobs?{query}")

    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize("text", ["order:2", "ORDER 2 was", '"plate":"blue-2"', "BLUE-2"])
def test_a_job_is_found_by_a_part_of_its_key_error_or_arguments(
    shop: Shop, operator: TestClient, text: str
) -> None:
    @shop.app.task(name="shop.paint")
    def paint(plate: str) -> None:
        raise ValueError("order 2 was not painted")

    wanted = paint.using(key="order:2").enqueue(plate="blue-2").id
    shop.charge.using(key="order:1").enqueue(1)
    shop.clock.run_due()

    page = operator.get("/jobs", params={"text": text}).text

    assert ids_on(page) == [wanted]


def test_an_id_in_the_search_box_leads_to_the_job(shop: Shop) -> None:
    job = shop.charge.enqueue(1)
    browser = shop.sign_in()

    answer = browser.client.get("/jobs", params={"text": job.id})

    assert answer.url.path == f"/jobs/{job.id}"


def test_hidden_arguments_cannot_be_found_by_guessing(shop: Shop, operator: TestClient) -> None:
    shop.charge.enqueue(7, card="4111-1111")

    answers = [operator.get(path, params={"text": "4111"}).text for path in ("/jobs", "/api/search")]

    assert "No job matches" in answers[0]
    assert '"jobs":[]' in answers[1]


# --- one job --------------------------------------------------------------------------------------


def test_a_jobs_page_tells_its_error_its_runs_and_its_last_success(shop: Shop) -> None:
    good = shop.charge.using(key="order:1").enqueue(1).id
    shop.clock.run_due()
    shop.clock.advance("1h")
    [failed] = shop.fail(1)
    browser = shop.sign_in()

    browser.open(f"/jobs/{failed}")

    assert "ValueError: order 1 was declined" in browser.text
    assert "Traceback (most recent call last)" in browser.text
    assert "Beside its last success" in browser.text
    assert f'href="/jobs/{good}"' in browser.page
    assert len(re.findall(r'<rect class="bar s-failed"', browser.page)) == 1
    assert f"duly retry {failed}" in browser.page
    assert "epoch 1 · generation" in browser.text


def test_a_waiting_jobs_page_says_why_it_does_not_run(shop: Shop, operator: TestClient) -> None:
    job = shop.charge.enqueue(1)
    shop.app.pause(queue="default", reason="the bank is away")

    page = operator.get(f"/jobs/{job.id}").text

    assert "It waits because" in page
    assert "the bank is away" in page
    assert len(re.findall(r'<li class="no">', page)) >= 1
    assert len(re.findall(r'<li class="yes">', page)) >= 4


def test_a_job_that_is_not_there_is_not_found(operator: TestClient) -> None:
    answer = operator.get("/jobs/0123")

    assert answer.status_code == 404
    assert "No job has the id" in answer.text


# --- what is hidden -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/jobs", "/jobs/{id}", "/api/jobs", "/api/jobs/{id}", "/bulk?order=cancel"])
def test_what_a_task_redacts_is_nowhere(shop: Shop, operator: TestClient, path: str) -> None:
    job = shop.charge.enqueue(7, card="4111-1111")

    answer = operator.get(path.format(id=job.id))

    assert answer.status_code == 200
    assert "4111-1111" not in answer.text
    assert job.id in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/jobs",
        "/jobs/{id}",
        "/failures",
        "/bulk?order=retry",
        "/api/jobs",
        "/api/jobs/{id}",
        "/api/failures",
        "/api/preview?order=retry",
        "/api/search?text=declined",
    ],
)
def test_an_error_does_not_quote_what_is_hidden(shop: Shop, operator: TestClient, path: str) -> None:
    job = failed_with_a_quote(shop)

    answer = operator.get(path.format(id=job))

    assert answer.status_code == 200
    assert "4111-1111" not in answer.text
    assert "declined card ***" in answer.text


@pytest.mark.parametrize(
    "path", ["/api/jobs?error=4111", "/api/search?text=4111", "/api/jobs?error=4111-1111"]
)
def test_nobody_finds_a_job_by_what_is_hidden_in_its_error(
    shop: Shop, operator: TestClient, path: str
) -> None:
    failed_with_a_quote(shop)

    assert operator.get(path).json()["jobs"] == []


def failed_with_a_quote(shop: Shop) -> str:
    @shop.app.task(name="shop.pay", redact=["card"])
    def pay(order: int, card: str) -> None:
        raise ValueError(f"the bank declined card {card} of order {order}")

    job = pay.enqueue(7, "4111-1111")
    shop.clock.run_due()
    assert shop.app.jobs.get(job).state is State.FAILED
    return job.id


def test_names_that_are_secrets_are_hidden_at_any_depth(shop: Shop) -> None:
    @shop.app.task(name="shop.call")
    def call(request: dict[str, object]) -> None: ...

    job = call.enqueue({"headers": [{"Authorization": "Bearer abc"}], "pin": 1234, "path": "/orders"})
    page = shop.visit(OPERATOR, redact=["pin"]).get(f"/jobs/{job.id}").text

    assert "Bearer abc" not in page
    assert "1234" not in page
    assert "/orders" in page


def test_arguments_of_a_task_whose_code_is_not_here_are_not_shown(shop: Shop) -> None:
    job = shop.charge.enqueue(7, card="4111-1111")
    bare = Duly("memory://")
    with bare.standing_in(shop.app.store, shop.clock):
        client = TestClient(asgi(bare, token=OPERATOR), headers={"authorization": f"Bearer {OPERATOR}"})

        pages = [client.get(path).text for path in (f"/jobs/{job.id}", "/jobs", f"/api/jobs/{job.id}")]

    assert all("4111-1111" not in page for page in pages)
    assert "does not know the task" in pages[0]


# --- hostile text ---------------------------------------------------------------------------------


def test_hostile_names_keys_arguments_and_tracebacks_stay_text() -> None:
    app = Duly("memory://")

    @app.task(name=HOSTILE, queue_name="odd")
    def odd(word: str) -> None:
        raise RuntimeError(word)

    with virtual(app) as clock:
        job = odd.using(key=HOSTILE).enqueue(HOSTILE)
        clock.run_due()
        app.pause(queue=HOSTILE, reason=HOSTILE)
        client = TestClient(asgi(app, token=OPERATOR), headers={"authorization": f"Bearer {OPERATOR}"})
        paths = ["/", "/jobs", f"/jobs/{job.id}", "/bulk?order=retry", "/workers", "/jobs?key=" + HOSTILE]
        pages = [client.get(path).text for path in paths]

    for page in pages:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "49}}" not in page
    assert sum("&lt;script&gt;alert(1)" in page for page in pages) >= 5


def test_the_message_after_an_order_is_text_too(shop: Shop) -> None:
    said = quote(HOSTILE, safe="")

    answer = shop.visit(OPERATOR).get("/", headers={"cookie": f"duly-said={said}"})

    assert "&lt;script&gt;alert(1)" in answer.text
    assert "<script>alert" not in answer.text


# --- schedules ------------------------------------------------------------------------------------


def test_the_list_of_schedules_draws_the_ticks_of_the_next_day(shop: Shop, operator: TestClient) -> None:
    shop.clock.run_due()

    page = operator.get("/schedules").text

    assert "nightly" in page
    assert len(re.findall(r'class="bar s-running"', page)) == 1


def test_what_if_shows_the_ticks_of_other_terms_and_changes_nothing(shop: Shop, operator: TestClient) -> None:
    shop.clock.run_due()
    before = shop.app.schedules.list()

    page = operator.get("/schedule?name=nightly&cron=0+*+*+*+*&timezone=Europe/Paris").text

    assert "Mon 02 Mar 14:00:00 CET" in page
    assert "Next ticks by these terms" in page
    assert shop.app.schedules.list() == before


def test_what_if_marks_what_a_change_of_clocks_does(shop: Shop, operator: TestClient) -> None:
    page = operator.get("/schedule?name=nightly").text  # 30 2 * * * in Paris; 29 March skips that hour

    assert "2026-03-29 01:00:00.000 UTC" in page
    assert "Sun 29 Mar 03:00:00 CEST" in page
    assert "clocks have just gone forward" in page


def test_what_if_marks_an_hour_that_comes_twice() -> None:
    app = Duly("memory://")

    @app.schedule(cron="*/30 * * * *", timezone="Europe/Paris", name="often")
    @app.task
    def often() -> None: ...

    with virtual(app, start=datetime(2026, 10, 24, 12, 0, tzinfo=UTC)):
        client = TestClient(asgi(app, token=OPERATOR), headers={"authorization": f"Bearer {OPERATOR}"})
        found = client.get("/api/forecast?name=often").json()

    notes = [tick["note"] for tick in found["around_change"]]
    assert found["change"] == "2026-10-25T01:00:00+00:00"
    assert notes.count("this hour comes twice: the first time") == 2
    assert notes.count("this hour comes twice: the second time") == 2


def test_terms_that_cannot_be_are_explained(operator: TestClient) -> None:
    page = operator.get("/schedule?name=nightly&cron=99+*+*+*+*").text

    assert 'class="refusal"' in page


def test_schedules_that_tick_together_are_named(shop: Shop, operator: TestClient) -> None:
    shop.app.schedule(cron="30 2 * * *", timezone="Europe/Paris", name="twin")(shop.report)

    found = operator.get("/api/forecast?name=nightly").json()

    assert found["ticks"][0]["others"] == ["twin"]


def test_a_list_of_one_task_has_charts_of_that_task_alone(shop: Shop, operator: TestClient) -> None:
    shop.fail(1)

    one = operator.get("/jobs?task=shop.charge&state=failed").text

    assert 'data-lane="?task=shop.charge"' in one
    assert one.count('class="plot"') == 2
    assert "data-lane" not in operator.get("/jobs?state=failed").text
    assert "data-lane" not in operator.get("/jobs?task=shop.charge&task=shop.report").text


def test_a_running_job_is_drawn_from_when_it_was_due_and_not_from_its_request(shop: Shop) -> None:
    waiting = shop.app.jobs.get(shop.charge.enqueue(1))
    job = replace(waiting, due=waiting.created_at + timedelta(hours=9), state=State.RUNNING)

    [bar] = draw(job, waiting.created_at + timedelta(hours=10)).bars

    assert (bar.title, bar.waited, bar.start, bar.width) == ("on loan", 0, 900, 100)


def test_a_page_that_has_looked_long_enough_leaves_the_rest_to_the_next(
    shop: Shop, operator: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.dashboard.desk.STRETCH", 2)
    monkeypatch.setattr("duly.dashboard.desk.PATIENCE", timedelta(seconds=-1))
    wanted = shop.charge.enqueue(4711)
    for number in range(4):
        shop.charge.enqueue(number)

    first = operator.get("/jobs?text=4711").text
    pages = list(operator_pages(operator, "/api/search?text=4711"))

    assert "Not among the newest; go on with the older ones below." in first
    assert [[job["id"] for job in page] for page in pages] == [[], [], [wanted.id]]


def operator_pages(operator: TestClient, address: str) -> Iterator[list[dict[str, Any]]]:
    """A list of the API, page after page."""
    before: int | None = 0
    while before is not None:
        found = operator.get(f"{address}&before={before}" if before else address).json()
        yield found["jobs"]
        before = found["before"]
