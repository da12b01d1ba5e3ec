"""What somebody with bad intentions would try at the door, each as a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from tests.dashboard.arrange import OPERATOR, VIEWER, Browser, Shop

from duly import State
from duly.dashboard import Role, Visitor, departures
from duly.dashboard.door import TOGETHER, TRIES, Door, Session
from duly.dashboard.guard import LARGEST_OF_STRANGERS, Message, Receive, Scope, Send
from duly.dashboard.site import ASKED_EVERY, gone

WRONG = "a wrong token, long enough"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def from_address(site: Any, address: str) -> TestClient:
    return TestClient(site, client=(address, 50_000), follow_redirects=False)


def csrf_of(client: TestClient) -> str:
    return str(re.findall(r'name="csrf" value="([^"]+)"', client.get("/login").text)[0])


async def called(site: Any, scope: Scope, parts: Iterable[Message]) -> list[Message]:
    """The site's answer to a request that comes in these parts, which a client library would not send."""
    sent: list[Message] = []
    waiting = iter(parts)

    async def receive() -> Message:
        return next(waiting, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        sent.append(message)

    await site(
        {"type": "http", "query_string": b"", "root_path": "", "scheme": "http", **scope}, receive, send
    )
    return sent


# --- guessing tokens ------------------------------------------------------------------------------


def test_a_viewer_cannot_go_on_guessing_by_signing_in_between(shop: Shop) -> None:
    browser = shop.sign_in(VIEWER)
    client = browser.client
    form = {"csrf": csrf_of(client), "next": "/"}

    guesses = [client.post("/login", data={**form, "token": WRONG}).status_code for _ in range(TRIES - 1)]
    client.post("/login", data={**form, "token": VIEWER})
    guesses += [client.post("/login", data={**form, "token": WRONG}).status_code for _ in range(2)]

    assert guesses == [401] * TRIES + [429]


def test_guesses_from_everywhere_are_counted_together(shop: Shop) -> None:
    site = shop.site()
    for number in range(TOGETHER - 1):
        site._entrance.patience.note_failure(f"10.0.{number // 250}.{number % 250}")

    answers = [
        from_address(site, f"10.9.9.{number}").get("/api/summary", headers=bearer(WRONG)).status_code
        for number in range(2)
    ]

    assert answers == [401, 429]


def test_a_session_goes_on_while_its_address_must_wait(shop: Shop) -> None:
    browser = shop.sign_in()
    for _ in range(TRIES + 1):
        browser.client.get("/api/summary", headers=bearer(WRONG))

    assert browser.client.get("/api/summary").status_code == 200


def test_a_viewers_session_tells_nothing_of_the_operators_token() -> None:
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    door = Door(token=OPERATOR, viewer_token=VIEWER)
    session = door.open_session(Visitor("viewer", Role.VIEWER), noon)

    guess = Door(token="a guess of the operators' token", viewer_token=VIEWER)

    assert guess.read_session(session, noon) is not None  # so that a right guess looks like a wrong one
    assert Door(token=OPERATOR, viewer_token=None).read_session(session, noon) is None


# --- sessions -------------------------------------------------------------------------------------


def test_a_copied_session_is_over_once_its_owner_signs_out(shop: Shop) -> None:
    site = shop.site()
    browser, other = Browser(TestClient(site)), shop.site()
    browser.open("/login")
    browser.submit("/login", token=OPERATOR)
    copied = {"cookie": f"duly-session={browser.client.cookies['duly-session']}"}
    browser.open("/")
    browser.submit("/logout")

    answers = [
        TestClient(one, follow_redirects=False).get("/", headers=copied).status_code for one in (site, other)
    ]

    assert answers == [303, 303]


def test_each_sign_in_opens_a_session_of_its_own_and_ends_alone(shop: Shop) -> None:
    first, second = shop.sign_in(), shop.sign_in()
    assert first.client.cookies["duly-session"] != second.client.cookies["duly-session"]

    first.submit("/logout")

    assert second.client.get("/api/summary").status_code == 200


def test_viewers_cannot_push_an_operators_departure_away(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departures, "MOST", 2)
    left = departures.Departures(shop.app)
    operator, *viewers = (Session(Visitor("ann", Role.OPERATOR), "1"), Session(Visitor("eve"), "2"))

    left.note(operator)
    for viewer in viewers * 3:
        left.note(viewer)

    assert left.has(operator)
    assert departures.Departures(shop.app).has(operator)  # as another process would read it


def test_a_cookie_of_another_application_does_not_hide_ours(shop: Shop) -> None:
    session = shop.sign_in().client.cookies["duly-session"]

    cookies = f'prefs={{"a": [1, 2]}}; duly-session={session}; odd'
    answer = TestClient(shop.site()).get("/api/summary", headers={"cookie": cookies})

    assert answer.status_code == 200


def test_a_live_stream_ends_when_its_watcher_signs_out(shop: Shop) -> None:
    site = shop.site()
    browser = Browser(TestClient(site))
    browser.open("/login")
    browser.submit("/login", token=OPERATOR)
    watched, beats = site.site, list[list[bool]]()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/live":
            await watched(scope, receive, send)
            return
        is_gone = gone(Request(scope, receive))
        beats.append([await is_gone() for _ in range(ASKED_EVERY)])
        await asyncio.to_thread(browser.submit, "/logout")
        beats.append([await is_gone() for _ in range(ASKED_EVERY)])
        await PlainTextResponse("over")(scope, receive, send)

    site.site = watching
    browser.client.get("/live", headers={"connection": "keep-alive"})

    assert beats == [[False] * ASKED_EVERY, [False] * (ASKED_EVERY - 1) + [True]]


# --- orders ---------------------------------------------------------------------------------------


async def test_half_an_order_is_no_order(shop: Shop) -> None:
    kept, meant = shop.fail(1, 2)
    api = shop.visit(OPERATOR)
    preview = api.get("/api/preview?order=retry").json()
    fields = {"order": "retry", "newest": preview["newest"], "seen_at": preview["seen_at"], "key": "order:2"}
    body = urlencode(fields).encode()
    half = body[: body.index(b"&key")]
    headers = [
        (b"authorization", f"Bearer {OPERATOR}".encode()),
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = {"method": "POST", "path": "/orders/bulk", "headers": headers}

    answer = await called(shop.site(), scope, [{"type": "http.request", "body": half, "more_body": True}])

    assert answer[0]["status"] == 400
    assert [shop.app.jobs.get(one).state for one in (kept, meant)] == [State.FAILED, State.FAILED]


def test_strangers_cannot_send_much(shop: Shop) -> None:
    client = TestClient(shop.site())

    answer = client.post("/login", data={"csrf": csrf_of(client), "token": "x" * LARGEST_OF_STRANGERS})

    assert answer.status_code == 413


@pytest.mark.parametrize(
    "content_type", ["text/plain", "multipart/form-data; boundary=x", "application/json", ""]
)
def test_a_form_in_disguise_carries_no_secret(shop: Shop, content_type: str) -> None:
    [failed] = shop.fail(1)
    browser = shop.sign_in()
    body = urlencode({"csrf": browser.client.cookies["duly-csrf"]})

    answer = browser.client.post(
        f"/jobs/{failed}/retry", content=body, headers={"content-type": content_type}
    )

    assert answer.status_code == 403
    assert shop.app.jobs.get(failed).state is State.FAILED


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"])
@pytest.mark.parametrize(
    "disguise", [{}, {"x-http-method-override": "POST"}, {"x-method-override": "POST"}], ids=str
)
def test_only_a_post_gives_an_order(shop: Shop, method: str, disguise: dict[str, str]) -> None:
    [failed] = shop.fail(1)
    client = shop.visit(OPERATOR)

    answer = client.request(method, f"/jobs/{failed}/retry?_method=POST", headers=disguise)

    assert answer.status_code == 405
    assert shop.app.jobs.get(failed).state is State.FAILED


# --- caches, redirects, addresses -------------------------------------------------------------------


def test_what_a_cache_may_keep_carries_no_cookie(shop: Shop) -> None:
    client = TestClient(shop.site())

    answers = [client.get(path) for path in ("/static/duly.js", "/static/nothing.js")]

    assert all(answer.headers["cache-control"].startswith("public") for answer in answers)
    assert ["set-cookie" in answer.headers for answer in answers] == [False, False]


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/", None, 303),
        ("/api/summary", None, 401),
        ("/live", None, 401),
        ("/api/summary", WRONG, 401),
        ("/jobs/0123", OPERATOR, 404),
        ("/api/jobs/0123", OPERATOR, 404),
        ("/live.json", OPERATOR, 200),
        ("/jobs?state=odd", OPERATOR, 400),
        ("/logout", OPERATOR, 405),
    ],
)
def test_no_answer_is_kept_nor_framed(shop: Shop, path: str, token: str | None, status: int) -> None:
    client = TestClient(shop.site(), follow_redirects=False, headers=bearer(token) if token else {})

    answer = client.get(path)

    assert answer.status_code == status
    assert answer.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "target",
    [
        "/../admin",
        "/jobs/../../admin",
        "/%2e%2e/admin",
        "/%2E./admin",
        "//evil.example",
        "/\t/evil.example",
        "\\\\evil.example",
        "/jobs\r\nset-cookie: a=b",
        "///evil.example",
        "http:evil.example",
    ],
)
def test_after_signing_in_nobody_lands_elsewhere(shop: Shop, target: str) -> None:
    client = TestClient(shop.site(), follow_redirects=False)

    answer = client.post("/login", data={"csrf": csrf_of(client), "next": target, "token": OPERATOR})

    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_the_host_header_is_in_no_answer(shop: Shop) -> None:
    client = TestClient(shop.site(), follow_redirects=False)

    for path, headers in (
        ("/", {}),
        ("/login", {}),
        ("/", bearer(OPERATOR)),
        ("/api/openapi.json", bearer(OPERATOR)),
    ):
        answer = client.get(
            path, headers={"host": "evil.example", "x-forwarded-host": "evil.example", **headers}
        )
        assert "evil.example" not in answer.text + str(answer.headers)


def test_a_message_over_https_is_taken_away_with_what_browsers_ask_of_such_cookies(shop: Shop) -> None:
    client = TestClient(shop.site(), base_url="https://duly.example", headers=bearer(OPERATOR))

    answer = client.get("/", headers={"cookie": "__Host-duly-said=hello"})

    [cookie] = [one for one in answer.headers.get_list("set-cookie") if "said" in one]
    assert {"Max-Age=0", "Secure", "Path=/"} <= {part.strip() for part in cookie.split(";")}


# --- the host's login -------------------------------------------------------------------------------


def test_a_host_whose_login_has_bearer_tokens_of_its_own_is_asked(shop: Shop) -> None:
    [failed] = shop.fail(1)

    def login(request: HTTPConnection) -> Visitor | None:
        is_ada = request.headers.get("authorization") == "Bearer ada's"
        return Visitor("ada", Role.OPERATOR) if is_ada else None

    for tokens in ({"token": None, "viewer_token": None}, {}):
        client = TestClient(shop.site(authenticate=login, **tokens), follow_redirects=False)
        answers = [
            client.get("/api/summary", headers=bearer(token)).status_code for token in ("ada's", WRONG)
        ]
        order = client.post(f"/jobs/{failed}/retry", headers=bearer("ada's"))

        assert answers == [200, 401]
        assert order.status_code == 403  # a proxy may add such a header to what another site sends


def test_files_that_are_the_same_for_everybody_do_not_ask_the_hosts_login(shop: Shop) -> None:
    asked: list[str] = []

    def login(request: HTTPConnection) -> None:
        asked.append(request.url.path)

    client = TestClient(shop.site(authenticate=login))
    client.get("/static/duly.css")

    assert asked == []
    assert client.get("/api/summary").status_code == 401
    assert asked == ["/api/summary"]


@pytest.mark.parametrize("role", ["operator", "admin", None])
def test_a_role_that_is_none_of_ours_may_not_act(shop: Shop, role: Any) -> None:
    [failed] = shop.fail(1)

    def login(request: HTTPConnection) -> Visitor:
        return Visitor("eve", role)

    client = TestClient(shop.site(authenticate=login))
    headers = {"x-csrf-token": "same", "cookie": "duly-csrf=same"}

    answer = client.post(f"/jobs/{failed}/retry", headers=headers)

    assert answer.status_code == 403
