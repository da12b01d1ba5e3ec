"""A shop with a worker, its dashboard on a real port, and a real browser that looks at it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from tempfile import gettempdir
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from tests.browser.shop import TOKEN, VIEWER, Shop

from duly.dashboard import asgi

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PICTURES = Path(os.environ.get("DULY_PICTURES", "")) if os.environ.get("DULY_PICTURES") else None
"""Where screenshots are kept; nowhere unless somebody asks."""
PATIENCE = 60_000.0
"""Milliseconds, as the browser wants them: a busy machine is no fault of the page."""
expect.set_options(timeout=PATIENCE)

ROOT = Path(__file__).parents[2]
SOMEWHERE = """
([code, files, host]) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pattern = (text) => new RegExp(text.replace(/[^A-Za-z0-9]/g, "\\\\$&") + "[^ ]*?/shop.db");
  while (walker.nextNode()) {
    const node = walker.currentNode;
    node.data = node.data.replaceAll(code, "/srv/shop").replaceAll(host, "web-1")
      .replace(pattern(files), "/srv/shop.db");
  }
}
"""
"""Pictures for everybody do not tell on which machine they were taken."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    wants = bool(os.environ.get("DULY_BROWSER"))
    reason = "`make test-browser` runs these" if not wants else "no chromium on this machine"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not wants or CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Shop.opened(tmp_path_factory.mktemp("shop") / "shop.db") as shop:
        yield shop


@pytest.fixture(scope="session")
def address(shop: Shop) -> Iterator[str]:
    site = asgi(shop.app, token=TOKEN, viewer_token=VIEWER, environment="staging", title="Shop")
    server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        yield browser
        browser.close()


@dataclass
class Window:
    """A window of the browser, and everything its console complained about."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _dismiss(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str) -> None:
        self.page.goto(f"{self.address}{path}")

    def sign_in(self, token: str = TOKEN) -> None:
        self.open("/login")
        self.page.fill("#token", token)
        self.page.click("button.primary")
        self.page.wait_for_selector("#pulse[data-state]")

    def picture(self, name: str) -> None:
        """Keep what is seen, where somebody asked for it."""
        if PICTURES is not None:
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.evaluate(SOMEWHERE, [str(ROOT / "tests" / "browser"), gettempdir(), gethostname()])
            self.page.screenshot(path=PICTURES / f"{name}.png")


@pytest.fixture
def window(chromium: Browser, address: str) -> Iterator[Window]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    yield Window(context.new_page(), address)
    context.close()


@pytest.fixture
def phone(chromium: Browser, address: str) -> Iterator[Window]:
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="light"
    )
    context.set_default_timeout(PATIENCE)
    yield Window(context.new_page(), address)
    context.close()


@pytest.fixture
def night(chromium: Browser, address: str) -> Iterator[Window]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    context.set_default_timeout(PATIENCE)
    yield Window(context.new_page(), address)
    context.close()
