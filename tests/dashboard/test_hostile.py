"""Hostile text in every place that a stranger may name, and hostile addresses for every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tests.dashboard.arrange import OPERATOR, VIEWER, Shop

from duly import Duly, Run, bind
from duly.dashboard import Role, Visitor, asgi
from duly.dashboard.rendering import HERE, call_lines
from duly.testing import virtual

SCRIPT = "</script><script>alert(1)</script>"
HOSTILE = f"\"'><img src=x onerror=alert(2)>{SCRIPT}{{{{7*7}}}} javascript:alert(3)"
SHOWN = "&lt;img src=x onerror=alert(2)&gt;"
PAGES = (
    "/",
    "/jobs",
    "/jobs/{id}",
    "/failures",
    "/schedules",
    "/schedule?name={name}",
    "/workers",
    "/reactions",
    "/audit",
    "/bulk?order=retry",
    "/bulk?order=cancel&queue={name}",
    "/jobs?text={name}&key={name}",
    "/jobs?queue={name}&task={name}&error={name}",
    "/nothing/{name}",
    "/jobs/{name}",
    "/schedule?name={name}&cron={name}&timezone={name}",
    "/login?next={name}",
    "/bulk/1?expected={name}&text={name}",
    "/bulk/{name}",
)


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def harmful(self) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, facts) for tag, facts in self.found if is_harmful(tag, facts)]


def is_harmful(tag: str, facts: dict[str, str | None]) -> bool:
    """Whether an element could run or fetch anything that is not ours."""
    if any(name.startswith("on") or name == "style" for name in facts):
        return True
    addresses = [
        facts[name] or "" for name in ("src", "href", "action", "hx-get", "data-href") if name in facts
    ]
    if any(not re.match(r"[/#](?!/)", address) for address in addresses):
        return True
    return tag in ("iframe", "object", "embed", "base", "style") or (tag == "script" and "src" not in facts)


@pytest.fixture(scope="module")
def visited() -> Iterator[tuple[TestClient, str]]:
    """A site all of whose names are hostile, and the id of a job there."""
    app = Duly("memory://")

    @app.schedule(cron="* * * * *", name=HOSTILE, kwargs={"word": HOSTILE})
    @app.task(name=HOSTILE, queue_name=HOSTILE, keep_result="1h")
    def odd(run: Run, word: str) -> str:
        run.progress(1, 2, message=HOSTILE)
        raise RuntimeError(word)

    def login(request: HTTPConnection) -> Visitor:
        return Visitor(HOSTILE, Role.OPERATOR)

    with (
        virtual(app) as clock,
        TestClient(
            asgi(app, token=OPERATOR, authenticate=login, title=HOSTILE, environment=HOSTILE)
        ) as client,
    ):
        with bind(**{HOSTILE: HOSTILE}):
            job = odd.using(key=HOSTILE).enqueue(HOSTILE)
        clock.run_due()
        clock.advance("2m")
        clock.run_due()
        app.pause(queue=HOSTILE, reason=HOSTILE, by=HOSTILE)
        app.pause(task=HOSTILE, reason=HOSTILE, by=HOSTILE)
        odd.using(key="waits").enqueue(HOSTILE)
        yield client, job.id


@pytest.mark.parametrize("path", PAGES)
def test_hostile_text_stays_text_on_every_page(visited: tuple[TestClient, str], path: str) -> None:
    client, job = visited
    path, _, query = path.format(id=job, name="{name}").partition("?")
    pairs = [pair.split("=") for pair in query.split("&") if pair]
    parameters = {name: value.replace("{name}", HOSTILE) for name, value in pairs}

    answer = client.get(path.replace("{name}", "%3Cimg%20src=x%20onerror=alert(2)%3E"), params=parameters)

    page = Elements(answer.text)
    assert len(page.found) > 5
    assert page.harmful() == []
    assert SCRIPT not in answer.text
    assert "49" not in re.findall(r"onerror=alert\(2\).{0,60}?(49)", answer.text)
    assert SHOWN in answer.text  # at least the visitor's own name


@pytest.mark.parametrize("path", ["/api/jobs", "/api/summary", "/api/schedules", "/api/audit", "/live.json"])
def test_documents_are_never_taken_for_pages(visited: tuple[TestClient, str], path: str) -> None:
    client, _ = visited

    answer = client.get(path, headers={"accept": "text/html"})

    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_an_order_says_is_text(visited: tuple[TestClient, str]) -> None:
    client, _ = visited
    csrf = re.findall(r'name="csrf" value="([^"]+)"', client.get("/jobs").text)[0]

    for order in ("resume", "pause", HOSTILE):
        form = {
            "csrf": csrf,
            "order": order,
            "scope": "queue",
            "name": HOSTILE,
            "reason": HOSTILE,
            "back": "/",
        }
        answer = client.post("/orders/lane", data=form, follow_redirects=True)
        assert Elements(answer.text).harmful() == []
        assert SHOWN in answer.text


def test_our_script_and_templates_never_take_text_for_markup() -> None:
    script = (HERE / "static" / "duly.js").read_text()
    templates = "".join(path.read_text() for path in (HERE / "templates").iterdir())

    sinks = r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser"
    assert re.findall(sinks, script) == []
    assert (
        re.findall(r"\|\s*safe\b|autoescape|\s[\w-]+=\s*{{", templates) == []
    )  # an attribute without quotes ends at a blank


# --- addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "/ops"])
@pytest.mark.parametrize(
    "path",
    ["//jobs", "/./jobs", "/static/../jobs", "/static/%2e%2e/jobs", "/static/..%2fjobs", "/static//../jobs",
     "/login/../jobs", "/login/", "/login/jobs", "/LOGIN", "/jobs;/login", "/jobs%3f/static/", "/static",
     "/static/vendor/..%2f..%2f..%2fsite.py", "/static/%00", "/\\jobs", "/jobs/%2e%2e/login"],
)  # fmt: skip
def test_no_spelling_of_an_address_lets_a_stranger_in(shop: Shop, root: str, path: str) -> None:
    shop.fail(1)
    host = FastAPI()
    host.mount("/ops", shop.site())
    client = TestClient(host if root else shop.site(), follow_redirects=False)

    answer = client.get(root + path)

    is_refused = answer.status_code in (401, 404, 405)
    is_sent_away = (
        answer.status_code in (303, 307) and "/jobs" not in answer.headers["location"].partition("?")[0]
    )
    assert is_refused or is_sent_away
    assert "order:1" not in answer.text
    assert "def asgi" not in answer.text


def test_mounted_in_fastapi_it_is_closed_by_role_and_its_lifespan_runs(shop: Shop) -> None:
    [failed] = shop.fail(1)
    host = FastAPI()
    host.mount("/ops", shop.site())

    with TestClient(host, follow_redirects=False) as client:
        stranger = client.get("/ops/jobs")
        roles = [
            client.post(f"/ops/jobs/{failed}/retry", headers={"authorization": f"Bearer {token}"}).status_code
            for token in (VIEWER, OPERATOR)
        ]
        with pytest.raises(WebSocketDisconnect) as refusal, client.websocket_connect("/ops/live"):
            pytest.fail("it was let in")

    assert (stranger.status_code, stranger.headers["location"]) == (303, "/ops/login?next=%2Fjobs")
    assert roles == [403, 303]
    assert refusal.value.code == 1008


def test_a_login_that_breaks_lets_nobody_in(shop: Shop) -> None:
    def login(request: HTTPConnection) -> Visitor:
        raise ConnectionError("the directory is away")

    client = TestClient(shop.site(authenticate=login), raise_server_exceptions=False)

    answer = client.get("/jobs")

    assert answer.status_code == 500
    assert "directory" not in answer.text


def test_a_token_from_a_file_may_end_in_a_new_line_and_one_of_blanks_is_none(shop: Shop) -> None:
    client = TestClient(shop.site(token=f"{OPERATOR}\n"), headers={"authorization": f"Bearer {OPERATOR}"})

    assert client.get("/api/summary").status_code == 200
    with pytest.raises(Exception, match="at least 16"):
        shop.site(token=" " * 20)


@pytest.mark.parametrize("stored", [[1, 2, 3], [[1], [2]], {"a": 1}, None])
def test_arguments_that_are_no_call_are_shown_as_they_are(stored: object) -> None:
    assert call_lines(stored) == str(stored)
