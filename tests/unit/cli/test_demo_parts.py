"""The demo's ledger and its judge; the demo itself is a story."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly.cli.demo.audit import Report, due_ticks, text
from duly.cli.demo.ledger import Ledger
from duly.cli.demo.views import LiveView, PlainView, bar


def test_a_late_run_cannot_write_once_a_later_one_has_started(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.start("deliver", 1)
    ledger.start("deliver", 2)

    assert ledger.finish("deliver", 2) is True
    assert ledger.finish("deliver", 1) is False
    counts = ledger.entries()["deliver"].counts
    assert (counts["finish"], counts["refused"]) == (1, 1)


def test_a_successor_is_told_that_the_effect_is_there(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.start("pack 1", 1)
    ledger.finish("pack 1", 1)
    ledger.start("pack 1", 2)

    assert ledger.finish("pack 1", 2) is False
    counts = ledger.entries()["pack 1"].counts
    assert (counts["finish"], counts["known"]) == (1, 1)


def test_names_do_not_mix(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.start("pack 1", 5)
    ledger.start("pack 2", 1)

    assert ledger.finish("pack 2", 1) is True
    assert set(ledger.entries()) == {"pack 1", "pack 2"}


def report(**changes: object) -> Report:
    facts: dict[str, object] = {
        "seconds": 12.0, "done": 3, "expected": 3, "retried": 1, "recovered": 1, "ticks_run": 9,
        "ticks_expected": 9, "cycles": 20, "refused_by_store": 1, "refused_by_ledger": 1,
        "lost": [], "doubled": [], "exits": {"ann": 0},
    }  # fmt: skip
    return Report(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_demo_in_which_all_went_well_is_sound() -> None:
    assert report().is_sound
    assert "nothing lost, nothing done twice" in text(report())


@pytest.mark.parametrize(
    "change",
    [
        {"lost": ["pack 7"]},
        {"doubled": ["pack 7"]},
        {"done": 2},
        {"ticks_run": 8},
        {"refused_by_store": 0},
        {"recovered": 0},
        {"cycles": 0},
        {"exits": {"ann": 70}},
    ],
)
def test_any_one_thing_amiss_makes_it_unsound(change: dict[str, object]) -> None:
    assert not report(**change).is_sound
    assert "Not as it should be" in text(report(**change))


def test_a_live_view_erases_its_panel_before_it_draws_anew() -> None:
    stream = io.StringIO()
    view = LiveView(stream)

    view.show(["one", "two"])
    view.say("something happened")
    view.close()

    assert stream.getvalue() == "one\ntwo\n\x1b[2F\x1b[Jsomething happened\none\ntwo\n\x1b[2F\x1b[J"


def test_a_plain_view_has_no_escapes() -> None:
    stream = io.StringIO()
    view = PlainView(stream)

    view.say("something happened")
    view.show(["one"])
    view.close()

    assert stream.getvalue() == "something happened\n"


def test_a_bar_fills_with_the_work() -> None:
    assert (bar(0, 0, 4), bar(1, 2, 4), bar(2, 2, 4)) == ("░░░░", "██░░", "████")


def test_ticks_are_expected_for_every_second_between_the_first_and_the_last() -> None:
    first = datetime(2026, 11, 15, 12, tzinfo=UTC)

    assert len(due_ticks([first, first + timedelta(seconds=5)])) == 6
    assert due_ticks([]) == []
