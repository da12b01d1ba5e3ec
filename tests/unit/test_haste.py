"""A swift way that turned out not to suit is left alone for a while."""

from __future__ import annotations

from duly.stores.tables.haste import Haste


def pause(haste: Haste) -> int:
    """How many operations take the ordinary way before one is tried."""
    return next(asked for asked in range(1000) if haste.is_advisable())


def pauses(haste: Haste, count: int) -> list[int]:
    """After that many tries in vain, one after the other."""
    found: list[int] = []
    for _ in range(count):
        haste.was_in_vain()
        found.append(pause(haste))
    return found


def test_haste_is_advisable_until_a_try_was_in_vain() -> None:
    haste = Haste(first=2, longest=64)

    assert all(haste.is_advisable() for _ in range(100))


def test_after_a_try_in_vain_it_is_not_for_a_while() -> None:
    haste = Haste(first=2, longest=64)

    haste.was_in_vain()

    assert [haste.is_advisable() for _ in range(4)] == [False, False, True, True]


def test_each_pause_is_twice_as_long_up_to_the_longest() -> None:
    assert pauses(Haste(first=2, longest=64), 8) == [2, 4, 8, 16, 32, 64, 64, 64]
    assert pauses(Haste(first=3, longest=10), 4) == [3, 6, 10, 10]


def test_after_a_try_of_use_the_next_pause_is_a_first_one() -> None:
    haste = Haste(first=2, longest=64)
    pauses(haste, 3)

    haste.was_of_use()

    assert pauses(haste, 2) == [2, 4]


def test_where_the_first_pause_is_the_longest_all_are_alike() -> None:
    assert pauses(Haste(first=7, longest=7), 3) == [7, 7, 7]


def test_a_pause_lasts_no_longer_for_all_that_was_tried_before() -> None:
    haste = Haste(first=2, longest=2)
    for _ in range(100):
        haste.is_advisable()

    assert pauses(haste, 1) == [2]


def test_a_try_of_use_that_was_under_way_does_not_end_the_pause() -> None:
    haste = Haste(first=2, longest=64)
    haste.was_in_vain()

    haste.was_of_use()

    assert pause(haste) == 2
