"""Links between pages lead somewhere; a link to a test names one that exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.pages import DOCS, ROOT

PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r'\[[^\]]+\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?(?: "(\w+)")?\)')
BLOCKS = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class Link(NamedTuple):
    target: Path
    anchor: str
    title: str


def links_of(page: Path) -> list[Link]:
    text = BLOCKS.sub("", page.read_text(encoding="utf-8"))
    return [
        Link((page.parent / path).resolve() if path else page, anchor, title)
        for path, anchor, title in LINK.findall(text)
    ]


def anchors_of(page: Path) -> set[str]:
    """Headings as a reader's browser knows them."""
    headings = re.findall(r"^#+ (.+)$", BLOCKS.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    missing = [link.target for link in links_of(page) if not link.target.exists()]
    astray = [
        f"{link.target.name}#{link.anchor}"
        for link in links_of(page)
        if link.anchor and link.target.exists() and link.anchor not in anchors_of(link.target)
    ]

    assert missing == []
    assert astray == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = [link for link in links_of(page) if link.title.startswith("test_")]

    assert [link for link in named if f"def {link.title}(" not in link.target.read_text()] == []


def test_the_guarantees_name_tests() -> None:
    assert len([link for link in links_of(DOCS / "guarantees.md") if link.title]) > 30


def test_every_page_can_be_reached_from_the_index() -> None:
    linked = {link.target for link in links_of(DOCS / "index.md")}

    assert [page.name for page in DOCS.rglob("*.md") if page not in linked and "adr" not in page.parts] == [
        "index.md"
    ]
