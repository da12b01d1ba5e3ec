"""A worker's log: lines that cannot be forged, objects that carry the job."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Generator
from typing import Any

import pytest

import duly
from duly.cli.logs import RUNS, JsonFormatter, TextFormatter, run_line, run_lines, set_up
from duly.events import Event
from duly.run import as_current
from duly.testing import VirtualClock

DONE = Event("done", "shop.mail", "0" * 32, "lease:42", 1, 3, 0.0123)


def record(message: str, *values: object, name: str = "shop", **extra: object) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, __file__, 1, message, values, None)
    vars(made).update(extra)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JsonFormatter().format(made))
    return found


@pytest.fixture
def root() -> Generator[logging.Logger]:
    """Logging as it was, afterwards."""
    loggers = [logging.getLogger(name) for name in (None, "duly", RUNS)]
    before = [(logger, list(logger.handlers), logger.level) for logger in loggers]
    yield loggers[0]
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


def test_a_value_cannot_forge_a_line_of_text() -> None:
    text = TextFormatter().format(record("hello %s", "x\n2026-11-15 12:00:00.000 ERROR duly: fake \x1b[31m"))

    first, second = text.splitlines()
    assert first.endswith("INFO    shop: hello x")
    assert second.startswith("    2026-11-15")
    assert "\x1b" not in text


def test_passwords_in_messages_are_masked_in_both_formats() -> None:
    made = record("opening %s", "redis://:s3cret@cache/0")

    assert "s3cret" not in TextFormatter().format(made) + JsonFormatter().format(made)


def test_an_exception_is_shown_below_its_message() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        made = logging.LogRecord("shop", logging.ERROR, __file__, 1, "oh", (), sys.exc_info())

    assert TextFormatter().format(made).splitlines()[-1] == "    ValueError: no"
    assert as_json(made)["exception"].endswith("ValueError: no")


def test_an_object_is_one_line_with_time_level_logger_and_message() -> None:
    document = as_json(record("two\nlines"))

    assert set(document) == {"time", "level", "logger", "message"}
    assert document["time"].endswith("+00:00")
    assert (document["level"], document["logger"], document["message"]) == ("info", "shop", "two\nlines")
    assert "\n" not in JsonFormatter().format(record("two\nlines"))


def test_a_line_of_run_log_carries_its_job() -> None:
    document = as_json(record("x", job_id="7", task_name="shop.mail", job_key="k", attempt=2, epoch=5))

    assert {name: document[name] for name in ("job_id", "task", "key", "attempt", "epoch")} == {
        "job_id": "7", "task": "shop.mail", "key": "k", "attempt": 2, "epoch": 5
    }  # fmt: skip


def test_any_logger_inside_a_run_carries_the_job_and_what_was_bound() -> None:
    app = duly.Duly("memory://", clock=VirtualClock())
    seen: list[dict[str, Any]] = []

    @app.task
    def mail(run: duly.Run) -> None:
        with as_current(run), duly.bind(user_id=7):
            seen.append(as_json(record("inside")))

    mail()

    assert seen[0]["task"] == mail.name
    assert seen[0]["context"] == {"user_id": 7}
    assert len(seen[0]["job_id"]) == 32


def test_what_a_caller_gives_as_extra_is_kept_apart() -> None:
    document = as_json(record("x", order=5, shape=object))

    assert document["extra"]["order"] == 5
    assert isinstance(document["extra"]["shape"], str)


def test_a_finished_run_is_one_line_with_state_task_id_key_and_duration() -> None:
    assert run_line(DONE) == f"done shop.mail {'0' * 32} key=lease:42 12ms"


def test_a_try_that_failed_says_why_and_is_a_warning(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(level=None, form="json", verbosity=0)

    run_lines()(DONE._replace(kind="retry", detail="CloudError: gone\x1b"))
    run_lines()(DONE)

    (line,) = capsys.readouterr().err.splitlines()
    document = json.loads(line)
    assert (document["level"], document["event"], document["seconds"]) == ("warning", "retry", 0.0123)
    assert document["message"].endswith("(CloudError: gone\\x1b)")


def test_runs_that_ended_well_are_logged_on_request(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(level=None, form="text", verbosity=1)

    run_lines()(DONE)

    assert "duly.run: done shop.mail" in capsys.readouterr().err


def test_what_the_worker_logs_itself_is_not_logged_twice(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(level=None, form="text", verbosity=2)

    for kind in ("fail", "lost", "superseded"):
        run_lines()(DONE._replace(kind=kind))

    assert capsys.readouterr().err == ""


def test_an_application_that_set_up_its_own_logging_keeps_it(root: logging.Logger) -> None:
    mine = logging.NullHandler()
    root.handlers[:] = [mine]

    set_up(level=None, form=None, verbosity=0)
    assert root.handlers == [mine]

    set_up(level="error", form=None, verbosity=0)
    assert mine not in root.handlers
    assert root.level == logging.ERROR
