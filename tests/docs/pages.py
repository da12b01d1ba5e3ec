"""The pages as tests look at them: their text, their sections, the first cells of their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"^(?:await )?(?:app\.|task\.|run\.|job\.)?(?:jobs\.|schedules\.)?(\w+)")


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of any level."""
    _, found, rest = text_of(page).partition(f" {heading}\n")
    assert found, f"docs/{page} has no heading {heading!r}"
    following = _HEADING.search(rest)
    return rest[: following.start()] if following else rest


def named_in_tables(text: str) -> set[str]:
    """The names in the first column: `a`, `aa(…)` documents a and aa."""
    return {name for line in text.splitlines() if line.startswith("| ") for name in _names_of(line)}


def _names_of(row: str) -> Iterator[str]:
    for span in re.findall(r"`([^`]+)`", row.split(" | ", maxsplit=1)[0]):
        if found := _NAME.match(span):
            yield found[1]


def code_of_all_pages() -> str:
    """Everything that is written as code, in README and docs."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    return "\n".join(span for page in pages for span in _CODE.findall(page.read_text(encoding="utf-8")))
