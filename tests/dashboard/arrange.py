"""A shop whose dashboard is visited: its tasks, its visitors, and what they can click."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

from duly import Duly, Run
from duly.dashboard import asgi
from duly.dashboard.errands import Errand, under_way
from duly.jobs import Acted
from duly.testing import WorkingClock

OPERATOR = "operator-token-of-the-tests"
VIEWER = "viewer-token-of-the-tests"


@dataclass
class Shop:
    """An application on a clock of its own, and the things its tasks do."""

    app: Duly
    clock: WorkingClock
    broken: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        @self.app.task(name="shop.charge", redact=["card"])
        def charge(run: Run, order: int, *, card: str = "none") -> None:
            if order in self.broken:
                raise ValueError(f"order {order} was declined")

        @self.app.schedule(cron="30 2 * * *", timezone="Europe/Paris", name="nightly")
        @self.app.task(name="shop.report")
        def report() -> None: ...

        self.charge = charge
        self.report = report

    def fail(self, *orders: int) -> list[str]:
        """Jobs that have failed, one per order."""
        self.broken.update(orders)
        ids = [self.charge.using(key=f"order:{order}").enqueue(order).id for order in orders]
        self.clock.run_due()
        return ids

    def site(self, **options: Any) -> Any:
        given: dict[str, Any] = {"token": OPERATOR, "viewer_token": VIEWER, **options}
        return asgi(self.app, **given)

    def visit(self, token: str, **options: Any) -> TestClient:
        """Somebody who shows a token with every request, as programs do."""
        return TestClient(self.site(**options), headers={"authorization": f"Bearer {token}"})

    def sign_in(self, token: str = OPERATOR, **options: Any) -> Browser:
        """Somebody who has signed in, as people do."""
        browser = Browser(TestClient(self.site(**options), follow_redirects=True))
        browser.open("/login")
        browser.submit("/login", token=token)
        return browser


@dataclass
class Browser:
    """A visitor with cookies who sends the forms of the page that is open."""

    client: TestClient
    page: str = ""
    status: int = 0

    def open(self, path: str) -> str:
        answer = self.client.get(path)
        self.page, self.status = answer.text, answer.status_code
        return self.page

    def submit(self, action: str, /, **fields: str | list[str]) -> str:
        """Send the form of the open page with this action; its hidden fields go along."""
        form = next(form for form in self.forms(action) if matches(form, fields))
        answer = self.client.post(action, data={**form, **fields})
        self.page, self.status = answer.text, answer.status_code
        if 'hx-trigger="every' in self.page:  # a slow machine is still at it
            wait_for_orders()
            self.open(answer.url.path + "?" + answer.url.query.decode())
        return self.page

    def forms(self, action: str) -> list[dict[str, str]]:
        found = re.findall(rf'<form[^>]*action="{re.escape(action)}"[^>]*>(.*?)</form>', self.page, re.S)
        assert found, f"the page has no form for {action}"
        return [hidden_fields(text) for text in found]

    @property
    def text(self) -> str:
        """What a person reads."""
        return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", self.page)))


@dataclass
class Gate:
    """Holds an order once it has reached so many, until it may go on."""

    at: int
    is_reached: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def stand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        note = Errand.note

        def noted(errand: Errand, acted: Acted) -> None:
            if errand.outcome.changed + len(acted.changed) == self.at:
                self.is_reached.set()
                self.may_go_on.wait()
            note(errand, acted)

        monkeypatch.setattr(Errand, "note", noted)
        monkeypatch.setattr("duly.bulk.BATCH", 2)
        monkeypatch.setattr("duly.bulk.TOLD_EVERY", timedelta(0))
        monkeypatch.setattr("duly.dashboard.orders.NEARLY", 0.0)


def wait_for_orders() -> None:
    """Until those who work at orders to many are done."""
    for errand in under_way():
        errand.is_ended.wait()


def matches(form: dict[str, str], fields: dict[str, str | list[str]]) -> bool:
    return all(form.get(name, value) == value for name, value in fields.items())


def hidden_fields(text: str) -> dict[str, str]:
    pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', text)
    return {unescape(name): unescape(value) for name, value in pairs}
