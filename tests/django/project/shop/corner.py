"""A task in a module that no worker imports by itself."""

from __future__ import annotations

from duly.django import task


@task
def hide() -> None:
    """Nothing to do."""
