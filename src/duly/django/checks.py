"""What `manage.py check` says about Duly. No database is asked: `manage.py duly_check` does that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from duly.django import compat
from duly.django.place import (
    BACKEND_WORDS,
    ENGINE_WORDS,
    PLACE_WORDS,
    SCHEDULER_WORDS,
    duly_setting,
    place_of,
)
from duly.errors import DulyError
from duly.settings import load

SETTING_WORDS: set[str] = {*PLACE_WORDS, *ENGINE_WORDS, *SCHEDULER_WORDS}
"""What `DULY` may say; whoever reads another word of it adds it here."""

TAG: Final = "duly"


def register() -> None:
    """Called when the application is ready."""
    compat.checks.register(check_setting, TAG)
    compat.checks.register(check_words, TAG)
    compat.checks.register(check_databases, compat.checks.Tags.database)
    if not compat.has_checks():
        compat.checks.register(check_backends, TAG)


def check_setting(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> Iterable[Any]:
    """Words of `DULY` that nobody reads, and values that cannot be."""
    return [
        *_unknown(duly_setting(), SETTING_WORDS, "DULY"),
        *_unusable({}, "DULY"),
    ]


def check_words(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> Iterator[Any]:
    """Options of ours on a backend that reads none of them."""
    from duly.django.backend import TakesOurWords
    from duly.django.declaring import told_so_far

    for (alias, path), words in sorted(told_so_far().items()):
        if alias in compat.settings.TASKS and not isinstance(compat.task_backends[alias], TakesOurWords):
            yield compat.checks.Warning(
                f"{path} says {', '.join(words)}, and its backend {alias!r} knows nothing of that.",
                hint="Use duly.django.DulyBackend, or duly.django.ImmediateBackend in tests.",
                id="duly.W002",
            )


def check_backends(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> Iterator[Any]:
    """What the backport's own application does, where it is not installed."""
    for backend in compat.task_backends.all():
        yield from backend.check()


def check_options(alias: str, options: Mapping[str, Any]) -> Iterable[Any]:
    """The OPTIONS of one backend."""
    where = f"TASKS[{alias!r}]['OPTIONS']"
    return [
        *_not_installed(),
        *_unknown(options, {*PLACE_WORDS, *ENGINE_WORDS, *BACKEND_WORDS}, where),
        *_unusable(options, where),
        *_on_commit(options, where),
    ]


def _not_installed() -> Iterator[Any]:
    if not compat.is_installed("duly.django"):
        yield compat.checks.Error(
            "DulyBackend is in TASKS, but its application is not installed.",
            hint="Add 'duly.django' to INSTALLED_APPS and run manage.py migrate.",
            id="duly.E001",
        )


def _unknown(given: Mapping[str, Any], words: Iterable[str], where: str) -> Iterator[Any]:
    for word in sorted(set(given) - set(words)):
        yield compat.checks.Error(
            f"{where} has no option {word!r}.",
            hint=f"The options are {', '.join(sorted(words))}.",
            id="duly.E002",
        )


def _unusable(options: Mapping[str, Any], where: str) -> Iterator[Any]:
    try:
        place = place_of(options)
        load({"url": place.url or None, **dict(place.options)})
    except (DulyError, compat.ConnectionDoesNotExist) as error:
        yield compat.checks.Error(f"{where}: {error}", id="duly.E003")


def _on_commit(options: Mapping[str, Any], where: str) -> Iterator[Any]:
    given = options.get("enqueue_on_commit")
    if given is None or isinstance(given, bool) or given in compat.settings.DATABASES:
        return
    yield compat.checks.Error(
        f"{where}: enqueue_on_commit is {given!r}.",
        hint="It takes True, False, None, or the alias of a database in DATABASES.",
        id="duly.E004",
    )


def check_databases(
    app_configs: Sequence[Any] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> Iterator[Any]:
    """Tables that are missing though `migrate` is through: a namespace that came later has none yet.

    Django asks for this only where it may ask databases.
    """
    from duly.django.steps import has_begun, missing_steps

    for alias in databases or ():
        missing = missing_steps(alias) if has_begun(alias) else []
        if missing:
            yield compat.checks.Warning(
                f"The database {alias!r} lacks tables of Duly: {', '.join(missing)}.",
                hint="Run manage.py duly_check: it makes them.",
                id="duly.W001",
            )
