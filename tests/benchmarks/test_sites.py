"""The places that the measurements of the dashboard are pointed to."""

from __future__ import annotations

from pathlib import Path

from benchmarks.sites import Place, parser, places


def test_a_store_of_ones_own_is_the_only_place() -> None:
    given = parser("", jobs=7).parse_args(["--url", "sqlite:///shop.db", "--namespace", "shop"])

    assert list(places(given)) == [Place("sqlite:///shop.db", "shop")]
    assert given.jobs == 7


def test_a_private_store_is_gone_afterwards() -> None:
    given = parser("", jobs=7).parse_args(["--stores", "sqlite"])
    folders: list[Path] = []

    for place in places(given):
        folders.append(Path(place.url.removeprefix("sqlite:///")).parent)
        assert folders[0].is_dir()

    assert [folder.exists() for folder in folders] == [False]
