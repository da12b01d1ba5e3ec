"""The pytest plugin that comes with Duly: `duly_clock`, and `duly_app` to say whose clock it is.

pytest imports this at every start, also for people who never use it: nothing else is imported until a
test asks for one of the fixtures.
"""

from __future__ import annotations

from collections.abc import Generator
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from duly.app import App
    from duly.testing.working import WorkingClock

REMEDY = (
    "Say which application to test: duly_app = shop:app in pytest's configuration, "
    "or a fixture named duly_app that returns it."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """One setting: where the application is."""
    parser.addini("duly_app", "The Duly application that duly_clock works on, like shop:app.", default="")


@pytest.fixture
def duly_app(pytestconfig: pytest.Config) -> App:
    """The application under test. Override it, or set duly_app in pytest's configuration."""
    return find_app(str(pytestconfig.getini("duly_app")))


def find_app(place: str) -> App:
    """The application at `shop:app` or `shop.app`."""
    from duly.app import App

    if not place:
        raise pytest.UsageError(f"duly_clock has no application. {REMEDY}")
    try:
        found: object = resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"duly_app = {place} cannot be found: {error}. {REMEDY}") from error
    if not isinstance(found, App):
        raise pytest.UsageError(f"duly_app = {place} is {found!r}, not a Duly application. {REMEDY}")
    return found


@pytest.fixture
def duly_clock(duly_app: App) -> Generator[WorkingClock, None, None]:
    """The application in a virtual world for the length of a test; see duly.testing.virtual."""
    from duly.testing import virtual

    with virtual(duly_app) as clock:
        yield clock
