"""What people see: every page, on a desk, on a phone and at night, without a word of complaint."""

from __future__ import annotations

import pytest
from tests.browser.conftest import Window
from tests.browser.shop import Shop

PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "failed": "/jobs?state=failed",
    "task": "/jobs?task=shop.orders.charge",
    "job": "/jobs/{order:12}",
    "waiting": "/jobs/{later}",
    "bulk": "/bulk?order=retry&task=shop.orders.charge",
    "failures": "/failures",
    "audit": "/audit",
    "schedules": "/schedules",
    "schedule": "/schedule?name=nightly%20report",
    "workers": "/workers",
    "reactions": "/reactions",
}


def path_of(shop: Shop, name: str) -> str:
    path = PAGES[name]
    for key, job in shop.jobs.items():
        path = path.replace(f"{{{key}}}", job)
    return path


@pytest.mark.parametrize("name", PAGES)
def test_every_page_renders_without_complaint_on_a_desk(shop: Shop, window: Window, name: str) -> None:
    window.sign_in()
    window.open(path_of(shop, name))
    window.page.wait_for_selector("#pulse[data-state=live]")

    if name in ("overview", "task"):
        window.page.wait_for_selector(".plot[data-marks='1'] canvas")
    window.picture(name)

    assert window.complaints == []
    assert window.page.locator("main").inner_text() != ""


@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_a_phone(shop: Shop, phone: Window, name: str) -> None:
    phone.sign_in()
    phone.open(path_of(shop, name))
    phone.picture(f"phone-{name}")

    width = phone.page.evaluate("document.documentElement.scrollWidth")

    assert phone.complaints == []
    assert width <= 390


@pytest.mark.parametrize("name", ["overview", "jobs", "job", "schedule"])
def test_every_page_has_a_night_side(shop: Shop, night: Window, name: str) -> None:
    night.sign_in()
    night.open(path_of(shop, name))
    night.page.wait_for_selector("#pulse[data-state=live]")
    if name == "overview":
        night.page.wait_for_selector(".plot canvas")
    night.picture(f"night-{name}")

    background = night.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert background == "rgb(14, 19, 26)"
    assert night.complaints == []
