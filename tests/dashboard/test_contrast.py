"""Colours of the style sheet, measured as WCAG does: 4.5 for words, 3 for marks and frames of forms."""

from __future__ import annotations

import re
from itertools import product

import pytest

from duly.dashboard.rendering import HERE

CSS = (HERE / "static" / "duly.css").read_text(encoding="utf-8")
STATES = ("waiting", "running", "done", "failed", "cancelled", "skipped")
GROUNDS = ("page", "card", "raised")

Colour = tuple[float, float, float]


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+):\s*([^;]+);", block))


LIGHT = variables(CSS.partition("@media (prefers-color-scheme: dark)")[0])
DARKS = [
    variables(
        CSS.partition("@media (prefers-color-scheme: dark)")[2].partition(':root[data-theme="dark"]')[0]
    ),
    variables(CSS.partition(':root[data-theme="dark"]')[2].partition("}")[0]),
]
THEMES = {
    "light": LIGHT,
    "dark by the system": {**LIGHT, **DARKS[0]},
    "dark by choice": {**LIGHT, **DARKS[1]},
}


def colour(text: str) -> Colour:
    red, green, blue = (int(text.lstrip("#")[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def mixed(one: Colour, other: Colour, part: float) -> Colour:
    red, green, blue = (a * part + b * (1 - part) for a, b in zip(one, other, strict=True))
    return red, green, blue


def luminance(shade: Colour) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shade]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_is_the_one_of_wcag() -> None:
    assert round(contrast(colour("#000000"), colour("#ffffff")), 2) == 21
    assert round(contrast(colour("#767676"), colour("#ffffff")), 2) == 4.54


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("ink", "ground"), [*product(("ink", "soft"), GROUNDS), *product(("accent",), ("page", "card"))]
)
def test_words_can_be_read(theme: str, ink: str, ground: str) -> None:
    values = THEMES[theme]

    assert contrast(colour(values[ink]), colour(values[ground])) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_the_words_of_the_main_button_can_be_read(theme: str) -> None:
    values = THEMES[theme]

    assert contrast(colour(values["accent-ink"]), colour(values["accent"])) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("state", STATES)
def test_a_state_can_be_read_as_a_word_and_on_its_own_tint(theme: str, state: str) -> None:
    values = THEMES[theme]
    shade, tint = colour(values[state]), float(values["tint"].rstrip("%")) / 100

    for ground in ("card", "raised"):
        under = colour(values[ground])
        assert contrast(shade, under) >= 4.5
        assert contrast(shade, mixed(shade, under, tint)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("mark", ["quiet", "focus"])
def test_marks_without_words_can_be_seen(theme: str, mark: str) -> None:
    values = THEMES[theme]

    assert contrast(colour(values[mark]), colour(values["card"])) >= 3


def test_both_ways_to_be_dark_look_the_same() -> None:
    assert DARKS[0] == DARKS[1]
    assert len(DARKS[0]) > 15
