"""What buttons do: to whom, how often, and to nobody else."""

from __future__ import annotations

import re
import shlex
import threading
from datetime import timedelta
from html import unescape
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from tests.dashboard.arrange import OPERATOR, Gate, Shop, wait_for_orders

from duly import State
from duly.dashboard import errands


def states(shop: Shop, ids: list[str]) -> list[State]:
    return [shop.app.jobs.get(one).state for one in ids]


# --- one job --------------------------------------------------------------------------------------


def test_a_failed_job_is_retried_by_its_button_and_its_history_names_who(shop: Shop) -> None:
    [failed] = shop.fail(1)
    shop.broken.clear()
    browser = shop.sign_in()
    browser.open(f"/jobs/{failed}")

    browser.submit(f"/jobs/{failed}/retry")

    assert "Retried 1 job." in browser.text
    job = shop.app.jobs.get(failed)
    assert job.state is State.WAITING
    assert any("operator" in f"{line.worker} {line.note}" for line in job.history)
    shop.clock.run_due()
    assert shop.app.jobs.get(failed).state is State.DONE


def test_clicking_twice_does_it_once_and_says_so(shop: Shop) -> None:
    [failed] = shop.fail(1)
    browser = shop.sign_in()
    browser.open(f"/jobs/{failed}")
    [form] = browser.forms(f"/jobs/{failed}/retry")

    pages = [browser.client.post(f"/jobs/{failed}/retry", data=form).text for _ in range(2)]

    assert "Retried 1 job." in pages[0]
    assert "Retried 0 jobs. Refused 1 job" in pages[1]
    assert [line.event for line in shop.app.jobs.get(failed).history].count("revive") == 1


def test_a_waiting_job_is_cancelled_postponed_and_hurried(shop: Shop) -> None:
    job = shop.charge.using(run_after="1h").enqueue(1)
    browser = shop.sign_in()

    browser.open(f"/jobs/{job.id}")
    browser.submit(f"/jobs/{job.id}/postpone", after="1d")
    postponed = shop.app.jobs.get(job.id).ready_at
    browser.client.post(f"/jobs/{job.id}/postpone", data={"csrf": browser.client.cookies["duly-csrf"]})
    hurried = shop.app.jobs.get(job.id).ready_at
    browser.open(f"/jobs/{job.id}")
    browser.submit(f"/jobs/{job.id}/cancel")

    assert postponed == shop.clock.now() + timedelta(days=1)
    assert hurried == shop.clock.now()
    assert shop.app.jobs.get(job.id).state is State.CANCELLED


def test_ticked_jobs_are_retried_and_the_others_left_alone(shop: Shop) -> None:
    ids = shop.fail(1, 2, 3)
    browser = shop.sign_in()
    browser.open("/jobs")

    browser.submit("/orders/selected", order="retry", id=[ids[0], ids[2]])

    assert "Retried 2 jobs." in browser.text
    assert states(shop, ids) == [State.WAITING, State.FAILED, State.WAITING]


# --- many -----------------------------------------------------------------------------------------


def test_a_bulk_order_acts_on_exactly_what_was_previewed(shop: Shop) -> None:
    shown = shop.fail(1, 2, 3)
    shop.charge.enqueue(9)
    browser = shop.sign_in()
    browser.open("/bulk?order=retry&task=shop.charge")
    assert "Retry 3 jobs" in browser.text
    shop.clock.advance("1s")
    later = shop.fail(4, 5)  # match as well, but nobody has seen them

    browser.submit("/orders/bulk")

    assert "Retried 3 jobs" in browser.text
    assert states(shop, shown) == [State.WAITING] * 3
    assert states(shop, later) == [State.FAILED] * 2


def test_a_job_requested_before_the_preview_but_failed_after_it_is_not_touched(shop: Shop) -> None:
    old = shop.charge.using(run_after="1h").enqueue(8)
    [failed] = shop.fail(1)
    browser = shop.sign_in()
    browser.open("/bulk?order=retry")
    shop.broken.add(8)
    shop.clock.advance("2h")
    shop.clock.run_due()
    assert shop.app.jobs.get(old.id).state is State.FAILED

    browser.submit("/orders/bulk")

    assert "Retried 1 job" in browser.text
    assert states(shop, [failed, old.id]) == [State.WAITING, State.FAILED]


def test_jobs_that_left_the_set_meanwhile_are_counted_out(shop: Shop) -> None:
    ids = shop.fail(1, 2, 3)
    browser = shop.sign_in()
    browser.open("/bulk?order=retry")
    shop.app.jobs.retry(ids[0])

    browser.submit("/orders/bulk")

    assert "Retried 2 jobs" in browser.text
    assert "The preview showed 3" in browser.text


@pytest.mark.parametrize("count", [501, 2_001])
def test_a_bulk_order_to_many_counts_them_exactly(shop: Shop, count: int) -> None:
    shop.charge.enqueue_many([((order,), {}) for order in range(count)])
    browser = shop.sign_in()
    browser.open("/bulk?order=cancel")
    assert f"Cancel {count:,} jobs" in browser.text

    browser.submit("/orders/bulk")

    assert f"Cancelled {count:,} jobs" in browser.text
    assert shop.app.jobs.count(state="cancelled") == count


def test_a_bulk_order_spares_the_engines_own_jobs(shop: Shop) -> None:
    shop.clock.run_due()
    shop.charge.enqueue(1)
    browser = shop.sign_in()

    browser.open("/bulk?order=cancel")
    browser.submit("/orders/bulk")

    assert "Cancelled 1 job" in browser.text
    assert shop.app.jobs.count(queue="duly.schedules", state="waiting") == 1


def test_an_order_without_a_preview_is_refused(shop: Shop, operator: TestClient) -> None:
    ids = shop.fail(1)

    answer = operator.post("/orders/bulk", data={"order": "retry"})

    assert answer.status_code == 400
    assert states(shop, ids) == [State.FAILED]


def test_an_order_that_cannot_be_for_such_jobs_is_refused(operator: TestClient) -> None:
    answer = operator.get("/bulk?order=retry&state=running")

    assert answer.status_code == 409
    assert "cannot be retried" in answer.text


def test_the_preview_shows_the_same_as_a_command(shop: Shop, operator: TestClient) -> None:
    shop.fail(1)

    page = operator.get("/bulk?order=retry&key=order:1&error=it's").text

    assert "duly retry --state failed --key order:1 --error" in page


def test_a_bulk_order_by_text_acts_on_those_who_carry_it_and_shows_the_command(shop: Shop) -> None:
    named, other = shop.fail(17, 18)
    browser = shop.sign_in()
    browser.open("/jobs?text=order:17&state=failed")
    assert '/bulk?state=failed&amp;order=retry&amp;text=order%3A17"' in browser.page

    browser.open("/bulk?state=failed&order=retry&text=order:17")
    assert "Retry 1 job" in browser.text
    assert "duly retry --state failed --text order:17" in browser.text
    [later] = shop.fail(170)  # carries it as well, but nobody has seen it
    browser.submit("/orders/bulk")

    assert "Retried 1 job" in browser.text
    assert states(shop, [named, other, later]) == [State.WAITING, State.FAILED, State.FAILED]
    [deed] = shop.app.audit.list()
    assert (deed.changed, deed.about) == (1, {"state": ["failed"], "text": "order:17"})


def test_a_job_that_lost_the_text_after_the_preview_is_left_alone(shop: Shop) -> None:
    job = shop.charge.using(key="ann", run_after="1h").enqueue(1)
    browser = shop.sign_in()
    browser.open("/bulk?order=cancel&key=ann&text=[[1]")
    assert "Cancel 1 job" in browser.text
    shop.charge.using(key="ann", run_after="1h").enqueue(2)  # one waiting job, latest arguments

    browser.submit("/orders/bulk")

    assert "Cancelled 0 jobs" in browser.text
    assert shop.app.jobs.get(job.id).state is State.WAITING


def test_a_preview_by_text_that_looked_at_a_part_says_so_and_the_order_looks_at_all(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.bulk.BATCH", 2)
    shop.charge.enqueue_many([((order,), {}) for order in range(13)])
    browser = shop.sign_in()

    browser.open("/bulk?order=cancel&text=[[")
    assert "Cancel at least 10 jobs" in browser.text
    assert "Only the newest were looked at" in browser.text
    browser.submit("/orders/bulk")

    assert "Cancelled 13 jobs" in browser.text
    assert "The preview showed" not in browser.text
    assert shop.app.jobs.count(state="cancelled") == 13


@pytest.mark.parametrize("asked", [{"text": "4111"}, {"error": "4111"}])
def test_nobody_acts_on_jobs_by_what_is_hidden_of_them(
    shop: Shop, operator: TestClient, asked: dict[str, str]
) -> None:
    @shop.app.task(name="shop.pay", redact=["card"])
    def pay(card: str) -> None:
        raise ValueError(f"the bank declined {card}")

    job = pay.enqueue("4111-1111").id
    shop.clock.run_due()

    preview = operator.get("/api/preview", params={"order": "retry", **asked}).json()
    body = {"order": "retry", "newest": preview["newest"], "seen_at": preview["seen_at"], **asked}
    outcome = operator.post("/api/orders/matching", json=body).json()

    assert (preview["count"], preview["is_exact"], outcome["changed"]) == (0, True, 0)
    assert states(shop, [job]) == [State.FAILED]


def test_failures_of_one_cause_are_retried_together_and_no_others(shop: Shop) -> None:
    declined = shop.fail(1, 2)

    @shop.app.task(name="shop.other")
    def other() -> None:
        raise KeyError("stock")

    elsewhere = other.enqueue().id
    shop.clock.run_due()
    browser = shop.sign_in()
    browser.open("/failures")
    assert "ValueError: order 2 was declined" in browser.text
    [fingerprint] = {shop.app.jobs.get(one).fingerprint for one in declined}

    browser.open(f"/bulk?order=retry&fingerprint={fingerprint}")
    browser.submit("/orders/bulk")

    assert "Retried 2 jobs" in browser.text
    assert states(shop, [*declined, elsewhere]) == [State.WAITING, State.WAITING, State.FAILED]


# --- while it works -------------------------------------------------------------------------------


def test_an_order_tells_how_far_it_is_and_goes_on_without_its_browser(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(at=4)
    gate.stand(monkeypatch)
    shop.charge.enqueue_many([((order,), {}) for order in range(5)])
    browser, elsewhere = shop.sign_in(), shop.sign_in()
    browser.open("/bulk?order=cancel")
    answer = browser.client.post(
        "/orders/bulk", data=browser.forms("/orders/bulk")[0], follow_redirects=False
    )
    gate.is_reached.wait()

    page = answer.headers["location"]
    browser.open(page)
    working, written = browser.text, browser.page
    elsewhere.open(page)
    audited = browser.open("/audit")
    gate.may_go_on.set()
    wait_for_orders()
    browser.open(page)

    assert "Cancelled 2 jobs so far" in working
    assert 'hx-trigger="every 1s"' in written
    assert 'max="5" value="2"' in written
    assert f'href="{page.partition("?")[0]}">unfinished' in audited
    assert "Cancelled 2 jobs so far" in elsewhere.text
    assert "Another process works at it" in elsewhere.text
    assert "Cancelled 5 jobs" in browser.text
    assert "every 1s" not in browser.page
    [deed] = shop.app.audit.list()
    assert (deed.changed, deed.is_complete) == (5, True)


def test_an_order_is_cut_short_when_the_dashboard_stops_and_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(at=4)
    gate.stand(monkeypatch)
    shop.charge.enqueue_many([((order,), {}) for order in range(7)])
    browser = shop.sign_in()
    browser.open("/bulk?order=cancel")
    browser.client.post("/orders/bulk", data=browser.forms("/orders/bulk")[0], follow_redirects=False)
    gate.is_reached.wait()
    [errand] = errands.under_way()

    stopping = threading.Thread(target=errands.stop_all)
    stopping.start()
    errand.is_stopping.wait()
    gate.may_go_on.set()
    stopping.join()
    browser.open(f"/bulk/{errand.number}")

    assert "Cancelled 4 jobs, then cut short" in browser.text
    assert "Give the same order again" in browser.text
    assert shop.app.jobs.count(state="cancelled") == 4
    [deed] = shop.app.audit.list()
    assert (deed.changed, deed.is_complete) == (4, False)


def test_of_many_orders_at_a_time_the_last_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "MOST", 1)
    may_end, desk = threading.Event(), errands.Errands()

    def slow(errand: errands.Errand) -> None:
        errand.begin(1)
        may_end.wait()

    first = desk.send(slow)
    second = desk.send(lambda errand: errand.begin(2))
    ends = first.is_ended.is_set(), second.is_ended.is_set()
    may_end.set()

    assert ends == (False, True)
    assert first.result() is first.outcome


def test_an_order_that_finds_nobody_any_more_says_so(shop: Shop) -> None:
    [failed] = shop.fail(1)
    browser = shop.sign_in()
    browser.open("/bulk?order=retry")
    shop.app.jobs.retry(failed)

    browser.submit("/orders/bulk")

    assert "Retried 0 jobs." in browser.text
    assert shop.app.audit.list() == []


@pytest.mark.parametrize("number", ["7", "999999999999999999999999"])
def test_an_order_nobody_gave_is_not_there(shop: Shop, operator: TestClient, number: str) -> None:
    assert operator.get(f"/bulk/{number}").status_code == 404


def test_an_order_to_a_queue_is_no_order_to_many(shop: Shop, operator: TestClient) -> None:
    shop.app.pause(queue="default", by="ann")
    [deed] = shop.app.audit.list()

    assert operator.get(f"/bulk/{deed.number}").status_code == 404


# --- the audit ------------------------------------------------------------------------------------


def test_every_order_is_written_down_with_who_and_how_many(shop: Shop) -> None:
    ids = shop.fail(1, 2, 3)
    browser = shop.sign_in()
    browser.open("/bulk?order=retry&task=shop.charge")
    browser.submit("/orders/bulk")
    browser.open(f"/jobs/{ids[0]}")
    browser.submit(f"/jobs/{ids[0]}/cancel")
    browser.open("/")
    browser.submit("/orders/lane", order="pause", name="default")
    browser.open("/schedules")
    for order in ("pause", "resume", "trigger"):
        browser.submit("/orders/schedule", order=order, name="nightly")

    browser.open("/audit")
    deeds = shop.app.audit.list()

    assert [deed.order for deed in deeds] == ["trigger", "resume", "pause", "pause", "cancel", "retry"]
    assert {deed.by for deed in deeds} == {"operator"}
    assert (deeds[-1].changed, deeds[-1].about["task"]) == (3, ["shop.charge"])
    assert "task shop.charge" in browser.text


def test_orders_that_were_refused_at_the_door_are_not_written_down(shop: Shop, viewer: TestClient) -> None:
    [failed] = shop.fail(1)

    viewer.post(f"/jobs/{failed}/retry")

    assert shop.app.audit.list() == []


# --- lanes and schedules --------------------------------------------------------------------------


def test_a_queue_is_paused_with_a_name_and_resumed(shop: Shop) -> None:
    shop.charge.enqueue(1)
    browser = shop.sign_in()
    browser.open("/")

    browser.submit("/orders/lane", order="pause", name="default")
    [switch] = shop.app.store.run(shop.app.store.switches())
    shop.clock.run_due()
    held = shop.app.jobs.count(state="waiting", task="shop.charge")
    browser.submit("/orders/lane", order="resume", name="default")
    shop.clock.run_due()

    assert (switch.name, switch.reason) == ("default", "(paused by operator)")
    assert held == 1
    assert shop.app.jobs.count(state="done", task="shop.charge") == 1


def test_a_schedule_is_paused_resumed_run_now_edited_and_reset(shop: Shop) -> None:
    shop.clock.run_due()
    browser = shop.sign_in()

    browser.open("/schedules")
    browser.submit("/orders/schedule", order="pause", name="nightly")
    assert shop.app.schedules.list()[0].is_paused
    browser.submit("/orders/schedule", order="resume", name="nightly")
    assert not shop.app.schedules.list()[0].is_paused
    browser.submit("/orders/schedule", order="trigger", name="nightly")
    assert shop.app.jobs.count(task="shop.report") == 1

    browser.open("/schedule?name=nightly&every=15m")
    browser.submit("/orders/schedule", order="edit")
    assert shop.app.schedules.list()[0].terms["every"] == "15m"
    browser.submit("/orders/schedule", order="reset")

    assert shop.app.schedules.list()[0].overlay == {}


def test_an_unknown_schedule_or_order_is_refused(operator: TestClient) -> None:
    answers = [
        operator.post("/orders/schedule", data={"order": "pause", "name": "nobody"}),
        operator.post("/orders/schedule", data={"order": "explode", "name": "nightly"}),
        operator.post("/orders/lane", data={"order": "pause", "scope": "world", "name": "x"}),
        operator.post("/jobs/x/explode"),
    ]

    assert [answer.status_code for answer in answers] == [404, 400, 400, 400]


def test_who_gave_an_order_by_token_is_told_by_role(shop: Shop) -> None:
    [failed] = shop.fail(1)

    shop.visit(OPERATOR).post(f"/jobs/{failed}/retry")

    assert shop.app.jobs.get(failed).state is State.WAITING


@pytest.mark.parametrize("name", ["--x; touch /tmp/pwned", "$(touch /tmp/pwned)", "-a `id`", "it's"])
def test_a_command_to_be_pasted_quotes_what_strangers_named(shop: Shop, name: str) -> None:
    job = shop.charge.using(key=name, queue_name=name).enqueue(1)
    browser = shop.sign_in()

    lines = [
        *re.findall(r'<button[^>]* title="(duly [^"]*)"', browser.open("/")),
        *re.findall(
            r'<code class="cli"[^>]*>([^<]*)<', browser.open(f"/bulk?order=cancel&key={quote(name)}")
        ),
        *re.findall(r'<code class="cli"[^>]*>([^<]*)<', browser.open(f"/jobs/{job.id}")),
    ]

    words = [shlex.split(unescape(line)) for line in lines]
    assert len(words) >= 6
    assert all(word[0] == "duly" for word in words)
    assert any(name in one or f"--key={name}" in one for one in words)
    assert not any(part in word for word in words for part in ("touch", ";", "`id`"))
