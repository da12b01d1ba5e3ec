"""Who fails too often waits, and nobody else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.dashboard.arrange import Shop

from duly.dashboard.door import REMEMBERED, TOGETHER, Patience, neighbourhood


def test_who_was_here_before_does_not_wait_for_what_strangers_do(shop: Shop) -> None:
    patience = Patience(shop.clock.now)
    patience.note_success("10.1.1.1")

    for number in range(TOGETHER):
        patience.note_failure(f"10.2.{number // 250}.{number % 250}")

    assert patience.wait("10.1.1.1") == timedelta(0)
    assert patience.wait("10.3.3.3") == timedelta(minutes=1)
    shop.clock.advance("61s")
    assert patience.wait("10.3.3.3") == timedelta(0)


def test_a_flood_of_addresses_does_not_fill_the_memory(shop: Shop) -> None:
    patience = Patience(shop.clock.now)

    for number in range(REMEMBERED + 5):
        patience.note_failure(str(number))

    assert len(patience) == REMEMBERED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8::ffff:2"),
        ("fe80::1%eth0", "fe80::2%eth1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_addresses_of_one_network_are_one(one: str, other: str) -> None:
    assert neighbourhood(one) == neighbourhood(other)


@pytest.mark.parametrize(
    ("one", "other"), [("2001:db8::1", "2001:db8:0:1::1"), ("10.0.0.1", "10.0.0.2"), ("a", "b")]
)
def test_addresses_of_several_networks_are_several(one: str, other: str) -> None:
    assert neighbourhood(one) != neighbourhood(other)
