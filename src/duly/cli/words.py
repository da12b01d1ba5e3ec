"""How values read: escaped, masked, short. Whatever a job carries may have been written by a stranger."""

from __future__ import annotations

import getpass
from collections.abc import Collection
from datetime import UTC, datetime, timedelta


def shown(text: str) -> str:
    """Control characters made visible, so that no value can paint a terminal or forge a line."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def operator() -> str:
    """Who gives an order at a terminal, for the job's history and the audit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody at a terminal"


def one_line(text: str) -> str:
    """A message of several lines on one, escaped."""
    return shown(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def last_line(text: str | None) -> str:
    """What a traceback comes down to."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return shown(lines[-1]) if lines else ""


def clipped(text: str, width: int) -> str:
    """At most `width` characters, the cut made visible."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def span(length: timedelta) -> str:
    """A length of time in the one or two units a reader cares for."""
    seconds = abs(length.total_seconds())
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes = round(seconds / 60)
    if seconds < 3600:
        return f"{int(seconds) // 60}m {int(seconds) % 60}s"
    if seconds < 86_400:
        return f"{minutes // 60}h {minutes % 60}m"
    return f"{minutes // 1440}d {minutes // 60 % 24}h"


def relative(moment: datetime | None, now: datetime) -> str:
    """`3.0s ago`, `in 2m 5s`; empty for no moment at all."""
    if moment is None:
        return ""
    away = moment - now
    return f"in {span(away)}" if away > timedelta(0) else f"{span(away)} ago"


def stamp(moment: datetime | None) -> str | None:
    """A moment as documents carry it: ISO 8601 in UTC."""
    return None if moment is None else moment.astimezone(UTC).isoformat()


def counted(number: int, what: str) -> str:
    """`1 job`, `3 jobs`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def did_you_mean(name: str, known: Collection[str], otherwise: str = "") -> str:
    """The nearest names, or another remedy."""
    from difflib import get_close_matches  # long to load, and rarely needed

    near = get_close_matches(name, sorted(known), n=2, cutoff=0.55)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else otherwise
