"""What people do: click, type and tick; and what strangers' text must not do."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import TimeoutError as TooLate
from playwright.sync_api import expect
from tests.browser.conftest import Window
from tests.browser.shop import HOSTILE, VIEWER, Shop
from tests.dashboard.arrange import Gate
from tests.stories.arrange import until

from duly import State


def failed_jobs(shop: Shop, *orders: int) -> list[str]:
    """Jobs of their own for one test, failed."""
    shop.broken |= set(orders)
    ids = [shop.charge.using(key=f"order:{order}").enqueue(order).id for order in orders]
    until(lambda: all(shop.app.jobs.get(one).state is State.FAILED for one in ids))
    return ids


def test_a_failed_job_is_retried_by_a_click_and_turns_green_by_itself(shop: Shop, window: Window) -> None:
    [failed] = failed_jobs(shop, 301)
    window.sign_in()
    window.open(f"/jobs/{failed}")
    expect(window.page.locator("h1 .badge")).to_have_text("failed")
    window.page.wait_for_selector("#pulse[data-state=live]")
    shop.broken.discard(301)

    window.page.get_by_role("button", name="Retry").click()

    expect(window.page.locator("h1 .badge")).to_have_text("done")
    expect(window.page.locator(".said")).to_have_text("Retried 1 job.")
    assert window.complaints == []


def test_a_new_failure_comes_into_an_open_list_by_itself(shop: Shop, window: Window) -> None:
    window.sign_in()
    window.open("/jobs?key=order:310")
    window.page.wait_for_selector("#pulse[data-state=live]")
    expect(window.page.locator(".empty")).to_be_visible()

    failed_jobs(shop, 310)

    expect(window.page.locator("tr.row .badge")).to_have_text("failed")


def test_a_bulk_order_acts_on_exactly_the_previewed_jobs(shop: Shop, window: Window) -> None:
    shown = failed_jobs(shop, 321, 322, 323)
    fingerprint = shop.app.jobs.get(shown[0]).fingerprint
    before = shop.app.jobs.count(fingerprint=fingerprint, state="failed")
    window.sign_in()
    window.open(f"/jobs?fingerprint={fingerprint}")
    window.page.get_by_role("link", name="Retry all…").click()
    expect(window.page.locator("h1")).to_have_text(f"Retry {before} jobs")
    window.picture("preview")
    [later] = failed_jobs(shop, 324)
    shop.broken -= {321, 322, 323}

    window.page.get_by_role("button", name=f"Retry {before} jobs").click()

    expect(window.page.locator("h1")).to_have_text(f"Retried {before} jobs")
    until(lambda: all(shop.app.jobs.get(one).state is State.DONE for one in shown))
    assert shop.app.jobs.get(later).state is State.FAILED


def test_an_order_by_text_tells_how_far_it_is_until_it_is_done(
    shop: Shop, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ids = Gate(at=3), failed_jobs(shop, 3510, 3511, 3512)
    window.sign_in()
    window.open("/jobs?state=failed&text=order:351")
    window.page.get_by_role("link", name="Retry all…").click()
    expect(window.page.locator("h1")).to_have_text("Retry 3 jobs")
    shop.broken -= {3510, 3511, 3512}
    gate.stand(monkeypatch)

    window.page.get_by_role("button", name="Retry 3 jobs").click()
    gate.is_reached.wait()
    expect(window.page.locator("h1")).to_have_text("Retried 2 jobs so far")
    window.picture("working")
    gate.may_go_on.set()

    expect(window.page.locator("h1")).to_have_text("Retried 3 jobs")
    until(lambda: all(shop.app.jobs.get(one).state is State.DONE for one in ids))
    assert window.complaints == []


def test_ticked_jobs_are_retried_with_the_keyboard(shop: Shop, window: Window) -> None:
    first, second = failed_jobs(shop, 331, 332)
    window.sign_in()
    window.open("/jobs?state=failed")

    for key in ("j", "x", "j", "x"):
        window.page.keyboard.press(key)
    expect(window.page.locator("#ticked")).to_have_text("2 ticked")
    shop.broken -= {331, 332}
    window.page.get_by_role("button", name="Retry ticked").click()

    expect(window.page.locator(".said")).to_have_text("Retried 2 jobs.")
    until(lambda: all(shop.app.jobs.get(one).state is State.DONE for one in (first, second)))


def test_pages_are_reached_with_two_keys_and_help_with_one(window: Window) -> None:
    window.sign_in()

    window.page.keyboard.press("?")
    expect(window.page.locator("#keys")).to_be_visible()
    window.page.keyboard.press("Escape")

    until(lambda: is_led(window, "gs", re.compile("/schedules$")))


def is_led(window: Window, keys: str, where: re.Pattern[str]) -> bool:
    """Whether these keys lead there; on a busy machine the second may come too long after the first."""
    for key in keys:
        window.page.keyboard.press(key)
    try:
        window.page.wait_for_url(where, timeout=3_000)
    except TooLate:
        return False
    return True


def test_hostile_names_keys_arguments_and_tracebacks_stay_inert(shop: Shop, window: Window) -> None:
    job = shop.stranger.using(key=HOSTILE).enqueue(HOSTILE)
    until(lambda: shop.app.jobs.get(job.id).state is State.FAILED)
    window.sign_in()

    for path in ("/", "/jobs", f"/jobs/{job.id}", "/failures", "/bulk?order=retry"):
        window.open(path)
        window.page.wait_for_selector("#pulse[data-state=live]")
        window.page.locator("main", has_text="<script>alert(1)</script>").wait_for()  # counts may be old
        assert window.page.locator("img[src=x]").count() == 0
    shop.app.jobs.delete(job.id)

    assert window.complaints == []


def test_a_viewer_sees_no_buttons_and_a_forged_order_changes_nothing(shop: Shop, window: Window) -> None:
    [failed] = failed_jobs(shop, 341)
    window.sign_in(VIEWER)
    window.open(f"/jobs/{failed}")

    assert window.page.get_by_role("button", name="Retry").count() == 0
    status = window.page.evaluate(
        f"""fetch("/jobs/{failed}/retry", {{method: "POST"}}).then((answer) => answer.status)"""
    )

    assert status == 403
    assert shop.app.jobs.get(failed).state is State.FAILED


def test_inline_script_would_not_run_even_if_it_were_there(window: Window) -> None:
    window.sign_in()

    ran = window.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.inline = true";
          document.body.append(script);
          return window.inline === true;
        }"""
    )

    assert ran is False
    assert any("Content Security Policy" in complaint for complaint in window.complaints)


def test_night_and_day_are_changed_by_a_key_and_remembered(window: Window) -> None:
    window.sign_in()

    window.page.keyboard.press("t")
    window.open("/jobs")

    assert window.page.evaluate("document.documentElement.dataset.theme") == "dark"


CONTRAST = """
() => {
  const rgb = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [found[0] * scale, found[1] * scale, found[2] * scale, found[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((n) => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgb(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !element.checkVisibility() || element.closest(".sr, dialog, .skip")) continue;
    const below = ground(element);
    const ink = over(rgb(getComputedStyle(element).color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${element.className || element.tagName}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(shop: Shop, window: Window, theme: str) -> None:
    window.sign_in()
    if theme == "dark":
        window.page.keyboard.press("t")
    poor: list[str] = []
    for path in ("/", "/jobs", f"/jobs/{shop.jobs['order:12']}", f"/jobs/{shop.jobs['later']}", "/schedules",
                 "/schedule?name=nightly%20report", "/failures", "/audit", "/workers", "/login"):  # fmt: skip
        window.open(path)
        poor += [f"{path} {one}" for one in window.page.evaluate(CONTRAST)]

    assert poor == []


def test_a_row_stays_chosen_when_the_list_comes_anew(shop: Shop, window: Window) -> None:
    failed_jobs(shop, 341, 342)
    window.sign_in()
    window.open("/jobs?state=failed")
    window.page.keyboard.press("j")
    chosen = window.page.locator("tr.row.at").get_attribute("data-href")

    window.page.evaluate("document.querySelector('#rows').dataset.old = '1'")
    window.page.evaluate("document.body.dispatchEvent(new Event('duly:changed'))")
    expect(window.page.locator("#rows[data-old]")).to_have_count(0)

    expect(window.page.locator("tr.row.at")).to_have_attribute("data-href", str(chosen))
