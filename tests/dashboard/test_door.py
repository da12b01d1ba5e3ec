"""Nobody comes in unknown, nobody acts without the right, and no other site acts through them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tests.dashboard.arrange import OPERATOR, VIEWER, Shop

from duly import Duly, State
from duly.dashboard import Role, Visitor, asgi
from duly.dashboard.door import TRIES
from duly.dashboard.guard import OPEN_PATHS
from duly.errors import DefinitionError


def routes_of(site: Any) -> list[tuple[str, str]]:
    """Every method and path of the site, with something in the place of each parameter."""
    return [
        (method, re.sub(r"{\w+}", "x", route.path))
        for route in site.site.routes
        if isinstance(route, Route)
        for method in sorted(route.methods or ())
    ]


CLOSED = [pair for pair in routes_of(asgi(Duly("memory://"), token=OPERATOR)) if pair[1] not in OPEN_PATHS]
ORDERS = [path for method, path in CLOSED if method == "POST" and path != "/logout"]


# --- strangers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_strangers_get_nothing_from_any_route(shop: Shop, method: str, path: str) -> None:
    stranger = TestClient(shop.site(), follow_redirects=False)

    answer = stranger.request(method, path)

    is_sent_to_login = answer.status_code == 303 and answer.headers["location"].startswith("/login?next=")
    assert answer.status_code == 401 or is_sent_to_login
    assert "shop" not in answer.text


def test_the_list_of_routes_is_not_empty() -> None:
    assert len(ORDERS) >= 10
    assert ("GET", "/jobs") in CLOSED


@pytest.mark.parametrize("path", ORDERS)
def test_viewers_may_give_no_order(shop: Shop, path: str) -> None:
    answer = shop.visit(VIEWER).post(path, json={})

    assert answer.status_code == 403
    assert "operator" in answer.text


def test_an_unauthenticated_or_viewer_request_changes_nothing(shop: Shop) -> None:
    [failed] = shop.fail(1)

    for client in (TestClient(shop.site()), shop.visit(VIEWER), shop.visit("a wrong token, long enough")):
        client.post(f"/jobs/{failed}/retry")
        client.post("/orders/lane", data={"order": "pause", "scope": "queue", "name": "default"})

    assert shop.app.jobs.get(failed).state is State.FAILED
    assert shop.app.store.run(shop.app.store.switches()) == []


def test_a_viewer_sees_no_buttons(shop: Shop) -> None:
    [failed] = shop.fail(1)

    pages = [shop.visit(VIEWER).get(path).text for path in (f"/jobs/{failed}", "/jobs", "/", "/schedules")]

    assert [re.findall(r'action="(/jobs/|/orders)[^"]*"', page) for page in pages] == [[], [], [], []]


def test_websockets_are_closed_at_once(shop: Shop) -> None:
    with pytest.raises(WebSocketDisconnect) as refusal, TestClient(shop.site()).websocket_connect("/live"):
        pytest.fail("it was let in")

    assert refusal.value.code == 1008


# --- tokens ---------------------------------------------------------------------------------------


def test_a_dashboard_without_token_or_login_cannot_be_made() -> None:
    with pytest.raises(DefinitionError, match="open to nobody"):
        asgi(Duly("memory://"))


def test_a_short_token_is_refused_with_a_better_one() -> None:
    with pytest.raises(DefinitionError, match="at least 16"):
        asgi(Duly("memory://"), token="secret")


def test_viewers_and_operators_cannot_share_a_token() -> None:
    with pytest.raises(DefinitionError, match="same token"):
        asgi(Duly("memory://"), token=OPERATOR, viewer_token=OPERATOR)


def test_who_fails_too_often_waits_even_with_the_right_token(shop: Shop) -> None:
    client = TestClient(shop.site())
    wrong, right = ({"authorization": f"Bearer {token}"} for token in ("w" * 20, OPERATOR))
    for _ in range(TRIES):
        assert client.get("/api/summary", headers=wrong).status_code == 401

    answer = client.get("/api/summary", headers=right)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    shop.clock.advance("61s")
    assert client.get("/api/summary", headers=right).status_code == 200


def test_the_login_page_is_rate_limited_too(shop: Shop) -> None:
    browser = shop.sign_in("a wrong token, long enough")
    for _ in range(TRIES):
        browser.submit("/login", token="another wrong token")

    browser.submit("/login", token=OPERATOR)

    assert browser.status == 429
    assert "Too many failed tries" in browser.text


# --- sessions -------------------------------------------------------------------------------------


def test_signing_in_opens_the_page_that_was_asked_for(shop: Shop) -> None:
    client = TestClient(shop.site(), follow_redirects=True)
    page = client.get("/jobs?state=failed")
    csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[0]
    target = re.findall(r'name="next" value="([^"]+)"', page.text)[0]

    answer = client.post("/login", data={"csrf": csrf, "next": target, "token": OPERATOR})

    assert answer.url.path == "/jobs"
    assert answer.url.query == b"state=failed"


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"]
)
def test_signing_in_never_leads_to_another_site(shop: Shop, target: str) -> None:
    client = TestClient(shop.site(), follow_redirects=False)
    csrf = re.findall(r'name="csrf" value="([^"]+)"', client.get("/login").text)[0]

    answer = client.post("/login", data={"csrf": csrf, "next": target, "token": OPERATOR})

    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_session_ends_after_twelve_hours(shop: Shop) -> None:
    browser = shop.sign_in()
    assert "Sign out" in browser.page

    shop.clock.advance("12h")

    assert "Token" in browser.open("/")


def test_a_session_that_was_tampered_with_opens_nothing(shop: Shop) -> None:
    browser = shop.sign_in(VIEWER)
    text, _, signature = browser.client.cookies["duly-session"].partition(".")

    forgeries = [f"{text[:-2]}AA.{signature}", f"{text}.{'0' * 64}", text, ".", "x.y.z"]
    stranger = TestClient(shop.site(), follow_redirects=False)

    answers = [stranger.get("/", headers={"cookie": f"duly-session={forged}"}) for forged in forgeries]

    assert [answer.status_code for answer in answers] == [303] * len(forgeries)
    genuine = stranger.get("/", headers={"cookie": f"duly-session={text}.{signature}"})
    assert genuine.status_code == 200


def test_a_new_token_ends_the_sessions_of_the_old_one(shop: Shop) -> None:
    session = shop.sign_in().client.cookies["duly-session"]
    client = TestClient(shop.site(token="another-token-altogether"), follow_redirects=False)

    answer = client.get("/", headers={"cookie": f"duly-session={session}"})

    assert answer.status_code == 303


def test_signing_out_ends_the_session(shop: Shop) -> None:
    browser = shop.sign_in()

    browser.submit("/logout")

    assert "Sign in" in browser.open("/")


def test_cookies_over_https_are_secure_and_for_this_host_alone(shop: Shop) -> None:
    client = TestClient(shop.site(), base_url="https://duly.example", follow_redirects=False)
    csrf = re.findall(r'name="csrf" value="([^"]+)"', client.get("/login").text)[0]

    answer = client.post("/login", data={"csrf": csrf, "token": OPERATOR})

    [cookie] = answer.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-duly-session=")
    assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}


def test_cookies_can_be_made_secure_behind_a_proxy(shop: Shop) -> None:
    answer = TestClient(shop.site(secure_cookies=True)).get("/login")

    assert answer.headers["set-cookie"].startswith("__Host-duly-csrf=")


# --- other sites ----------------------------------------------------------------------------------


def test_an_order_without_the_forms_own_secret_is_refused(shop: Shop) -> None:
    [failed] = shop.fail(1)
    browser = shop.sign_in()

    answers = [
        browser.client.post(f"/jobs/{failed}/retry", data={"csrf": secret}) for secret in ("", "x", "é")
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert shop.app.jobs.get(failed).state is State.FAILED


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=["origin", "null", "cross-site", "same-site"],
)
def test_an_order_from_another_site_is_refused_whatever_it_carries(
    shop: Shop, headers: dict[str, str]
) -> None:
    [failed] = shop.fail(1)
    browser = shop.sign_in()
    browser.open(f"/jobs/{failed}")
    [form] = browser.forms(f"/jobs/{failed}/retry")

    answer = browser.client.post(f"/jobs/{failed}/retry", data=form, headers=headers)

    assert answer.status_code == 403
    assert shop.app.jobs.get(failed).state is State.FAILED


def test_an_order_through_a_proxy_that_renames_the_host_is_taken(shop: Shop) -> None:
    [failed] = shop.fail(1)
    browser = shop.sign_in()
    browser.open(f"/jobs/{failed}")
    [form] = browser.forms(f"/jobs/{failed}/retry")
    headers = {"origin": "https://duly.example", "sec-fetch-site": "same-origin"}

    browser.client.post(f"/jobs/{failed}/retry", data=form, headers=headers)

    assert shop.app.jobs.get(failed).state is State.WAITING


def test_a_body_beyond_reason_is_refused(operator: TestClient) -> None:
    answer = operator.post("/api/orders/pause", content=b" " * 1_100_000)

    assert answer.status_code == 413


# --- what a browser is told -----------------------------------------------------------------------

PAGES = [
    "/",
    "/jobs",
    "/schedules",
    "/schedule?name=nightly",
    "/workers",
    "/reactions",
    "/failures",
    "/audit",
    "/bulk?order=retry",
]


@pytest.mark.parametrize("path", [*PAGES, "/login", "/nothing-here", "/api/summary"])
def test_every_answer_is_private_and_forbids_foreign_code(operator: TestClient, path: str) -> None:
    headers = operator.get(path).headers

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [*PAGES, "/login"])
def test_no_page_has_a_script_or_style_of_its_own(operator: TestClient, path: str) -> None:
    page = operator.get(path).text

    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", page) == []
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []


@pytest.mark.parametrize("path", ["/static/../site.py", "/static/%2e%2e/site.py", "/static/..%2fsite.py"])
def test_no_path_leads_out_of_the_assets(operator: TestClient, path: str) -> None:
    answer = operator.get(path)

    assert answer.status_code == 404
    assert "def asgi" not in answer.text


# --- as a part of another application ---------------------------------------------------------------


def test_the_hosts_login_lets_its_people_in_by_role(shop: Shop) -> None:
    [failed] = shop.fail(1)
    staff = {"ada": Visitor("ada", Role.OPERATOR), "bob": Visitor("bob")}

    async def login(request: HTTPConnection) -> Visitor | None:
        return staff.get(request.headers.get("x-user", ""))

    client = TestClient(shop.site(token=None, viewer_token=None, authenticate=login), follow_redirects=False)

    assert client.get("/", headers={"x-user": "ada"}).status_code == 200
    assert client.get("/", headers={"x-user": "eve"}).status_code == 401
    assert "Retry" in client.get(f"/jobs/{failed}", headers={"x-user": "ada"}).text
    assert "Retry" not in client.get(f"/jobs/{failed}", headers={"x-user": "bob"}).text


def test_mounted_below_a_path_it_stays_there(shop: Shop) -> None:
    [failed] = shop.fail(1)
    host = Starlette(routes=[Mount("/ops", app=shop.site())])
    client = TestClient(host, follow_redirects=True)

    page = client.get("/ops/jobs")
    csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[0]
    page = client.post("/ops/login", data={"csrf": csrf, "next": "/jobs", "token": OPERATOR})

    assert page.url.path == "/ops/jobs"
    links = re.findall(r'(?:href|src|action|hx-get)="(/[^"]*)"', page.text)
    assert [link for link in links if not link.startswith("/ops/")] == []
    answer = client.post(f"/ops/jobs/{failed}/retry", data={"csrf": csrf})
    assert answer.url.path == f"/ops/jobs/{failed}"
    assert shop.app.jobs.get(failed).state is State.WAITING


def test_sessions_are_read_by_every_process_that_knows_the_tokens(shop: Shop) -> None:
    session = shop.sign_in().client.cookies["duly-session"]

    answer = TestClient(shop.site()).get("/workers", headers={"cookie": f"duly-session={session}"})

    assert answer.status_code == 200
