"""Every public name is documented, and every name that is documented exists."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from types import ModuleType
from typing import Any, Final

import pytest
from tests.docs.pages import code_of_all_pages, named_in_tables, section, text_of

import duly
from duly import Handle, Job, Retry, Run, Worker, errors, testing
from duly.events import Event
from duly.job import Decision, HistoryLine
from duly.jobs import Jobs
from duly.kinds.periodic import ScheduleOptions
from duly.options import TaskOptions
from duly.schedules import Schedules, ScheduleView
from duly.settings import Settings
from duly.wishes import UsingOptions

MODULES: Final = [
    "duly",
    "duly.app",
    "duly.clash",
    "duly.codec",
    "duly.context",
    "duly.durations",
    "duly.engine",
    "duly.errors",
    "duly.events",
    "duly.handle",
    "duly.job",
    "duly.jobs",
    "duly.kinds.periodic",
    "duly.lifecycle",
    "duly.lock",
    "duly.options",
    "duly.retry",
    "duly.run",
    "duly.schedules",
    "duly.settings",
    "duly.task",
    "duly.ticks",
    "duly.wishes",
    "duly.worker.worker",
]

FOR_THE_ENGINE: Final = {
    "binding",
    "bound",
    "effects",
    "end",
    "has_asked",
    "has_completed",
    "is_live_here",
    "is_lost",
    "owns",
    "take",
}
"""Public for its other modules; a body has no use for them."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def fields_of(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


# --- names and where they are documented -----------------------------------------------------------


@pytest.mark.parametrize("name", duly.__all__)
def test_every_name_of_the_package_is_on_some_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", code_of_all_pages())


@pytest.mark.parametrize(
    ("options", "page", "heading"),
    [
        (TaskOptions.__annotations__, "reference/tasks.md", "Options"),
        (UsingOptions.__annotations__, "reference/tasks.md", "using()"),
        (ScheduleOptions.__annotations__, "reference/schedules.md", "Options"),
        (fields_of(Settings), "reference/settings.md", "Settings"),
        (fields_of(Retry), "reference/retries.md", "Retries"),
    ],
    ids=["task", "using", "schedule", "settings", "retry"],
)
def test_the_table_of_options_has_these_and_no_others(
    options: Collection[str], page: str, heading: str
) -> None:
    assert named_in_tables(section(page, heading)) == set(options)


@pytest.mark.parametrize("option", sorted(fields_of(Settings)))
def test_every_setting_is_documented_with_its_variable(option: str) -> None:
    assert f"| `{option}` | `DULY_{option.upper()}` |" in text_of("reference/settings.md")


@pytest.mark.parametrize("decision", list(Decision))
def test_every_decision_is_explained(decision: Decision) -> None:
    assert decision in named_in_tables(section("reference/jobs.md", "Decisions"))


@pytest.mark.parametrize(
    ("names", "page"),
    [
        (public(Run) - FOR_THE_ENGINE | {"superseded", "cancelled"}, "reference/runs.md"),
        (public(Handle) | {"id", "key", "generation", "decision"}, "reference/tasks.md"),
        (public(Jobs), "reference/jobs.md"),
        (fields_of(Job), "reference/jobs.md"),
        (public(Schedules), "reference/schedules.md"),
        (set(Event._fields), "how-to/logging.md"),
    ],
    ids=["run", "handle", "jobs", "job", "schedules", "event"],
)
def test_every_attribute_and_method_has_a_row(names: set[str], page: str) -> None:
    assert names - named_in_tables(text_of(page)) == set()


@pytest.mark.parametrize(
    ("names", "page"),
    [
        (fields_of(ScheduleView), "reference/schedules.md"),
        (fields_of(HistoryLine), "reference/jobs.md"),
        (public(Worker) - {"app", "id"}, "reference/worker.md"),
    ],
    ids=["schedule", "history", "worker"],
)
def test_every_smaller_name_is_mentioned(names: set[str], page: str) -> None:
    assert [name for name in sorted(names) if not re.search(rf"`{name}\b", text_of(page))] == []


def test_the_tree_of_errors_has_every_error_and_no_other() -> None:
    drawn = set(re.findall(r"^[├│└─ ]*(\w+)", section("reference/errors.md", "Errors"), re.MULTILINE))
    known = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and is_of(errors, kind)}

    assert known <= drawn
    assert {name for name in drawn if hasattr(errors, name)} == known


# --- docstrings --------------------------------------------------------------------------------------


def is_of(module: ModuleType, thing: Any) -> bool:
    return getattr(thing, "__module__", None) == module.__name__


def undocumented(module: ModuleType) -> Iterator[str]:
    """Public classes and functions of a module, and public methods of what is not merely a protocol."""
    if not module.__doc__:
        yield module.__name__
    for name, thing in vars(module).items():
        if name.startswith("_") or not is_of(module, thing):
            continue
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and not thing.__doc__:
            yield f"{module.__name__}.{name}"
        if inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
            yield from (f"{module.__name__}.{name}.{method}" for method in silent_methods(thing))


def silent_methods(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        is_behaviour = inspect.isfunction(member) or isinstance(member, property)
        if not name.startswith("_") and is_behaviour and not inspect.getdoc(getattr(kind, name)):
            yield name


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_for_tests_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(testing, name))


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert list(undocumented(importlib.import_module(name))) == []
