"""The pytest plugin, used by other people's test suites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from duly import Duly
from duly.testing.plugin import find_app

pytest_plugins = ["pytester"]

SHOP = """
from duly import Duly

app = Duly("sqlite:////nowhere/at/all.db")
sent = []

@app.task
def mail(to: str) -> None:
    sent.append(to)
"""

TESTS = """
import shop

def test_it(duly_clock):
    shop.mail.using(run_after="1h").enqueue("ada")
    duly_clock.assert_enqueued(shop.mail, "ada")
    assert duly_clock.run_due() == []
    duly_clock.advance("1h")
    duly_clock.run_due()
    assert shop.sent == ["ada"]
    assert shop.app.clock is duly_clock

def test_the_next_test_starts_from_nothing(duly_clock):
    assert duly_clock.enqueued() == []
"""

QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.fixture
def shop(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP, test_shop=TESTS)
    pytester.syspathinsert()
    return pytester


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*QUIET, *args)


def test_the_application_is_named_in_the_configuration(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\nduly_app = shop:app\npythonpath = .")

    run(shop).assert_outcomes(passed=2)


def test_a_fixture_named_duly_app_says_which_application(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\npythonpath = .")
    shop.makeconftest("import pytest, shop\n\n@pytest.fixture\ndef duly_app():\n    return shop.app\n")

    run(shop).assert_outcomes(passed=2)


@pytest.mark.parametrize("place", ["duly_shop:app", "duly_shop.app"])
def test_an_application_is_found_by_name(place: str, app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("duly_shop")
    vars(module)["app"] = app
    monkeypatch.setitem(sys.modules, "duly_shop", module)

    assert find_app(place) is app


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("", r"duly_clock has no application\. Say which"),
        ("json:nothing", "duly_app = json:nothing cannot be found"),
        ("nowhere_at_all:app", "duly_app = nowhere_at_all:app cannot be found"),
        ("not a name", "duly_app = not a name cannot be found"),
        ("json:dumps", "duly_app = json:dumps is .*, not a Duly application"),
    ],
)
def test_without_an_application_the_remedy_is_named(place: str, complaint: str) -> None:
    with pytest.raises(pytest.UsageError, match=complaint):
        find_app(place)


def test_a_failed_assertion_points_at_the_test_and_shows_the_queue(shop: pytest.Pytester) -> None:
    shop.makeini("[pytest]\nduly_app = shop:app\npythonpath = .")
    shop.makepyfile(
        test_shop="""
        import shop

        def test_it(duly_clock):
            shop.mail.enqueue("ada")
            duly_clock.assert_enqueued(shop.mail, "bob")
        """
    )

    result = run(shop)

    result.stdout.fnmatch_lines(
        [
            "E * AssertionError: shop.mail('bob') was not enqueued.",
            "E * Enqueued were:",
            "E *   shop.mail('ada') [[]waiting*",
            "test_shop.py:5: AssertionError",
        ]
    )


def test_the_plugin_costs_nothing_until_it_is_used(tmp_path: Path) -> None:
    heavy = ("duly.app", "duly.engine", "duly.worker", "duly.stores", "asyncio", "sqlite3")
    code = (
        "import sys, pytest; before = set(sys.modules); import duly.testing.plugin; "
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )

    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == "[]"
