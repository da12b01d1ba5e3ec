"""Middles and edges of a few numbers."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(numbers: Sequence[float], part: float) -> float | None:
    """The value below which that part of the numbers lies, between two of them if need be."""
    if not numbers:
        return None
    ordered = sorted(numbers)
    place = (len(ordered) - 1) * part
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
