"""This store's own SQL."""

from __future__ import annotations

from collections.abc import Mapping

from duly.stores.tables import texts


def statements(operation: str) -> Mapping[str, str]:
    """Every statement of `sql/<operation>.sql`, by its name."""
    return texts.statements(operation, "duly.stores.sqlite")
