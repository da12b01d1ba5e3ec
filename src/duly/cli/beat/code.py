"""Entries as Python that a person reads, keeps in version control and may change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pprint import pformat
from typing import Any, Protocol

from duly.cli.beat.entries import Entry


class Style(Protocol):
    """How a project names its tasks and schedules."""

    has_queues: bool

    def imports(self, entries: Sequence[Entry]) -> list[str]: ...
    def task(self, entry: Entry) -> str: ...
    def schedule(self) -> str: ...


class DjangoStyle:
    """`scheduled_task` on Django's tasks, each found where it is defined."""

    has_queues = True

    def imports(self, entries: Sequence[Entry]) -> list[str]:
        """The modules of the tasks, whole: two may have a function of one name."""
        modules = sorted({entry.task.rpartition(".")[0] for entry in entries})
        return [*(f"import {module}" for module in modules), "", "from duly.django import scheduled_task"]

    def task(self, entry: Entry) -> str:
        """The task itself."""
        return entry.task

    def schedule(self) -> str:
        """What makes a schedule."""
        return "scheduled_task"


class AppStyle:
    """`app.schedule` on tasks of an application `module:object`."""

    has_queues = False

    def __init__(self, place: str) -> None:
        self._module, _, self._object = place.partition(":")
        self._object = self._object or "app"

    def imports(self, entries: Sequence[Entry]) -> list[str]:
        """The application; its own module has imported the tasks."""
        return [f"from {self._module} import {self._object}"]

    def task(self, entry: Entry) -> str:
        """By the name that Celery has for it too."""
        return f"{self._object}.get_task({entry.task!r})"

    def schedule(self) -> str:
        """What makes a schedule."""
        return f"{self._object}.schedule"


def written(entries: Sequence[Entry], style: Style, source: str) -> str:
    """A module with everything that was found."""
    live = [entry for entry in entries if entry.kind in ("schedule", "once")]
    shown = [entry for entry in entries if entry.kind != "by hand"]
    parts = [
        f'"""Schedules that were rows of django-celery-beat, read from {source}."""',
        "\n".join(_imports(live, style)),
        *(_schedule(entry, style) for entry in shown if entry.kind == "schedule"),
        *(_commented(_schedule(entry, style)) for entry in shown if entry.kind == "disabled"),
        *_singles([entry for entry in shown if entry.kind == "once"], style),
        *(_for_a_person(entry) for entry in entries if entry.kind == "by hand"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _imports(live: Sequence[Entry], style: Style) -> list[str]:
    moments = any(isinstance(value, datetime) for entry in live for value in entry.words.values())
    standard = ["from datetime import UTC, datetime", ""] if moments else []
    return [*standard, *style.imports(live)] if live else []


def _schedule(entry: Entry, style: Style) -> str:
    """One call, one line for each word."""
    if "run_after" in entry.words:
        return "\n".join(_single(entry, style))
    words = {"name": entry.name, **entry.words, **_arguments(entry)}
    if entry.queue and style.has_queues:
        words["queue_name"] = entry.queue
    lines = [f"    {word}={_shown(value)}," for word, value in words.items()]
    call = [f"{style.schedule()}(", *lines, f")({style.task(entry)})"]
    return "\n".join([*_remarks(entry, style), *call])


def _singles(entries: Sequence[Entry], style: Style) -> list[str]:
    if not entries:
        return []
    lines = [f"    {line}" for entry in entries for line in _single(entry, style)]
    head = ["def enqueue_once() -> None:", '    """Single runs that were still to come: call it once."""']
    return ["\n".join([*head, *lines])]


def _single(entry: Entry, style: Style) -> list[str]:
    given = [repr(value) for value in entry.args]
    given += [f"**{_shown(entry.kwargs)}"] if entry.kwargs else []
    using = f"run_after={_shown(entry.words['run_after'])}"
    if entry.queue:
        using += f", queue_name={entry.queue!r}"
    return [
        f"# {entry.name}",
        *_remarks(entry, style),
        f"{style.task(entry)}.using({using}).enqueue({', '.join(given)})",
    ]


def _arguments(entry: Entry) -> dict[str, Any]:
    given: dict[str, Any] = {"args": entry.args, "kwargs": entry.kwargs}
    return {word: value for word, value in given.items() if value}


def _remarks(entry: Entry, style: Style) -> list[str]:
    notes = list(entry.notes)
    if entry.queue and not style.has_queues and "run_after" not in entry.words:
        notes.append(f'queue {entry.queue!r}: say @app.task(queue_name="{entry.queue}")')
    if entry.kind == "disabled":
        notes.insert(0, f"{entry.name!r} was disabled:")
    return [f"# {note}" for note in notes]


def _for_a_person(entry: Entry) -> str:
    return f"# Not carried over: {entry.name!r} of {entry.task}: {'; '.join(entry.notes)}."


def _commented(code: str) -> str:
    return "\n".join(line if line.startswith("#") else f"# {line}" for line in code.splitlines())


def _shown(value: Any) -> str:
    """As a person would write it; a date by its parts, in UTC."""
    if isinstance(value, datetime):
        parts: Iterable[int] = (value.year, value.month, value.day, value.hour, value.minute, value.second)
        return f"datetime({', '.join(map(str, parts))}, tzinfo=UTC)"
    return pformat(value, width=90, sort_dicts=False).replace("\n", "\n    ")
