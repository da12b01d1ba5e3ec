"""reschedule: an operator's terms over those of the code."""

from __future__ import annotations

import pytest
from tests.unit.cli.arrange import Command, Shop


def terms(shop: Shop) -> dict[str, object]:
    [view] = shop.app.schedules.list()
    return dict(view.terms)


def test_a_schedule_gets_other_terms_and_the_codes_again(duly: Command, shop: Shop) -> None:
    shop.work()

    edited = duly("reschedule", "nightly", "--cron", "0 3 * * *", "--json")
    after_edit = terms(shop)
    reset = duly("reschedule", "nightly", "--reset")

    assert (edited.code, edited.document["overlay"]) == (0, {"cron": "0 3 * * *"})
    assert after_edit["cron"] == "0 3 * * *"
    assert reset.code == 0
    assert terms(shop)["cron"] == "0 2 * * *"


def test_an_interval_takes_the_place_of_a_cron_line(duly: Command, shop: Shop) -> None:
    shop.work()

    answer = duly("reschedule", "nightly", "--every", "15m")

    assert answer.code == 0
    assert "every 15m" in answer.out


def test_edits_are_in_the_audit_under_the_operators_name(duly: Command, shop: Shop) -> None:
    shop.work()

    duly("reschedule", "nightly", "--cron", "0 3 * * *")

    [deed] = shop.app.audit.list()
    assert (deed.order, deed.about["schedule"]) == ("edit", "nightly")
    assert deed.by


@pytest.mark.parametrize(
    "words",
    [
        ["nightly"],
        ["nightly", "--reset", "--cron", "0 3 * * *"],
        ["nightly", "--cron", "never"],
        ["weekly", "--cron", "0 3 * * *"],
    ],
)
def test_what_cannot_be_changes_nothing(duly: Command, shop: Shop, words: list[str]) -> None:
    shop.work()
    before = terms(shop)

    answer = duly("reschedule", *words)

    assert answer.code != 0
    assert answer.err
    assert terms(shop) == before
