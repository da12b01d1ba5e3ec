"""This store's own SQL."""

from __future__ import annotations

from collections.abc import Mapping

from duly.stores.tables import texts


def statements(operation: str) -> Mapping[str, str]:
    """Every statement of `sql/<operation>.sql`, by its name."""
    return texts.statements(operation, "duly.stores.postgres")


def dropping(old: str) -> str:
    """A statement that drops the jobs `old` chooses with all they left; answers generations and ids."""
    return old + statements("drop")["with_all_they_left"]
