"""`duly top` and `duly status --watch`: live on a terminal, sensible without one."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.cli import watch as module
from duly.cli.top import glance, pace_of, text_of
from duly.cli.watch import ENTER, LEAVE, interval, watch
from duly.errors import StoreUnavailable
from duly.stores.contract import Ask, Lane, WorkerCard


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


class Looks:
    """Lets so many looks happen, then presses Ctrl-C."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, _seconds: float) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


def test_without_a_terminal_top_looks_once(duly: Command, shop: Shop) -> None:
    shop.task("mail").enqueue("ann")
    shop.task("fetch").enqueue(1)

    answer = duly("top", shop.target)

    assert answer.code == 0
    assert "waiting 2" in answer.out
    assert "no workers" in answer.out
    assert "nothing runs" in answer.out
    assert "\x1b" not in answer.out


def test_top_as_a_document(duly: Command, shop: Shop) -> None:
    shop.task("fetch").enqueue(1)

    document = duly("top", "--json").document

    (queue,) = document["queues"]
    assert (queue["queue"], queue["waiting"], queue["ended_per_second"]) == ("io", 1, None)
    assert queue["lag_seconds"] > 0
    assert (document["workers"], document["running"]) == ([], [])


def test_the_pace_is_what_ended_between_two_looks(shop: Shop) -> None:
    shop.task("mail").enqueue("ann")
    before = glance(shop.app)
    shop.task("mail").enqueue("nobody")
    shop.work()
    now = glance(shop.app)

    pace = pace_of("default", now, before)
    seconds = (now.overview.now - before.overview.now).total_seconds()

    assert pace.ended == pytest.approx(2 / seconds)
    assert pace.failed == pytest.approx(1 / seconds)
    assert pace_of("default", before, now).ended is None  # a clock that went back tells nothing


def test_a_running_job_is_shown_with_its_worker_and_progress(shop: Shop) -> None:
    app, name = shop.app, f"{shop.module}.sign_in"
    shop.task("sign_in").using(key="lease:\x1b[31m42").enqueue("ann", password="s3cret")
    store, lease = app.store, timedelta(seconds=30)
    card = WorkerCard("w1", "host:1", "host", 1, app.clock.now(), slots=3)
    store.run(store.renew(card, [], lease))
    (claim,) = store.run(store.claim(Ask("w1", {name: Lane(name)}, lease, limit=1, free=1))).claims
    store.run(store.report({claim.fence: '{"done": 3, "total": 9, "message": "pages by s3cret"}'}))

    text = text_of(glance(app), None)

    assert "1 of 3" in text
    assert "3 of 9 pages by ***" in text
    assert "lease:\\x1b[31m42" in text
    assert "host:1" in text


def test_a_terminal_is_given_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setattr(module, "pause", Looks(2))
    screen = Terminal()

    code = watch(lambda: "\n".join(f"line {n}" for n in range(9)), timedelta(seconds=1), stream=screen)

    shown = screen.getvalue()
    assert code == 0
    assert shown.startswith(ENTER)
    assert shown.endswith(LEAVE)
    assert shown.count("line 0") == 2
    assert "… 5 more lines" in shown
    assert "line 4" not in shown


def test_a_store_that_goes_away_leaves_what_was_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(["all is well"])
    monkeypatch.setattr(module, "pause", Looks(2))
    out = io.StringIO()

    def draw() -> str:
        for text in looks:
            return text
        raise StoreUnavailable("postgresql://shop:secret@db/shop is gone")

    watch(draw, timedelta(seconds=1), stream=out)

    assert out.getvalue().count("all is well") == 2
    assert "the store is away" in out.getvalue()
    assert "secret" not in out.getvalue()


def test_a_status_that_is_watched_is_written_again_and_again(
    duly: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "pause", Looks(3))
    text = duly("status", "--watch")
    monkeypatch.setattr(module, "pause", Looks(2))
    documents = duly("status", "--watch", "--json", "--every", "0.1")

    assert (text.code, text.out.count("no jobs")) == (0, 3)
    assert [json.loads(line)["jobs"]["waiting"] for line in documents.out.splitlines()] == [0, 0]


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), ("0.5", 0.5), ("1m", 60.0), ("2 s", 2.0)], ids=str)
def test_how_often_to_look_is_said_in_seconds_or_words(text: str, seconds: float) -> None:
    assert interval(text).total_seconds() == seconds


def test_a_pause_of_nothing_is_refused(duly: Command, shop: Shop) -> None:
    assert duly("top", "--every", "0").code == 2
    assert duly("top", "--every", "soon").code == 2
