"""Named places in real processes: read from the environment, silent unless armed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly import failpoints
from duly.errors import DefinitionError
from duly.failpoints import POINTS, VARIABLE, Failpoint, FailpointReached, arm, reached, read

SCRIPT = textwrap.dedent(
    """
    from duly import Duly

    app = Duly("sqlite:///shop.db")

    @app.task(name="mail")
    def mail() -> None:
        print("body", flush=True)

    if __name__ == "__main__":
        mail.enqueue()
        app.run(burst=True)
        print("served", flush=True)
    """
)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    before = failpoints.armed
    yield
    failpoints.armed = before


def start(folder: Path, text: str) -> subprocess.Popen[str]:
    (folder / "shop.py").write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, "shop.py"],
        cwd=folder,
        env=os.environ | {"DULY_FAILPOINTS": text},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_entries_name_a_point_an_action_and_options() -> None:
    text = "after_claim=exit; before_settle=stop nth=3 task=shop.mail, after_body=sleep for=2.5"

    assert read(text) == [
        Failpoint(point="after_claim", action="exit"),
        Failpoint(point="before_settle", action="stop", nth=3, task="shop.mail"),
        Failpoint(point="after_body", action="sleep", seconds=2.5),
    ]


def test_an_empty_text_arms_nothing() -> None:
    arm("  ")

    assert failpoints.armed is None
    reached("after_body", "mail")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("in_between=exit", "Points: after_claim"),
        ("after_body=explode", "actions: raise, exit"),
        ("after_body", "write point=action"),
        ("after_body=exit twice=2", "options: nth"),
        ("after_body=exit nth=0", "at least 1"),
        ("after_body=exit nth=-1", "at least 1"),
        ("after_body=sleep for=soon", "for=2.5"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(text: str, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        read(text)


def test_every_arrival_strikes_without_nth() -> None:
    arm("after_body=raise")

    for _ in range(2):
        with pytest.raises(FailpointReached, match="mail fail at after_body"):
            reached("after_body", "mail")


def test_nth_strikes_once_and_counts_only_its_own_task() -> None:
    arm("after_body=raise nth=2 task=mail")

    reached("after_body", "mail")
    reached("after_body", "report")
    reached("before_body", "mail")
    with pytest.raises(FailpointReached):
        reached("after_body", "mail")
    reached("after_body", "mail")


def test_a_hanging_point_never_comes_back() -> None:
    arm("before_body=hang")
    went_on = threading.Event()

    def run() -> None:
        reached("before_body")
        went_on.set()

    threading.Thread(target=run, daemon=True).start()

    assert not went_on.wait(0.05)


@pytest.mark.parametrize("point", [name for name in POINTS if name.endswith(("claim", "body", "settle"))])
def test_a_worker_dies_at_the_point_it_was_told_to(point: str, tmp_path: Path) -> None:
    process = start(tmp_path, f"{point}=exit task=mail")

    printed, _ = process.communicate(timeout=60)

    assert process.returncode == 137
    assert printed == ("" if point in ("after_claim", "before_body") else "body\n")


def test_a_stopped_worker_goes_on_when_continued(tmp_path: Path) -> None:
    process = start(tmp_path, "before_settle=stop nth=1")
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)

    process.send_signal(signal.SIGCONT)
    printed, _ = process.communicate(timeout=60)

    assert (process.returncode, printed) == (0, "body\nserved\n")


STOPPED_IN_A_THREAD = """
import os, threading
from duly import failpoints

def reach() -> None:
    failpoints.reached("before_deliver")
    os.write(1, b"went on")

threading.Thread(target=reach).start()
"""


def test_the_thread_that_is_stopped_takes_no_further_step() -> None:
    environment = os.environ | {VARIABLE: "before_deliver=stop"}
    for _ in range(5):  # told to the process instead, nine of ten threads went on
        with subprocess.Popen(
            [sys.executable, "-c", STOPPED_IN_A_THREAD], env=environment, stdout=subprocess.PIPE
        ) as process:
            os.waitpid(process.pid, os.WUNTRACED)
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            had_printed = bool(process.stdout.read())  # None when there is nothing to be read

            process.send_signal(signal.SIGCONT)
            process.wait()

            assert (had_printed, process.stdout.read()) == (False, b"went on")


def test_a_raised_fault_in_the_body_fails_its_job(tmp_path: Path) -> None:
    process = start(tmp_path, "before_body=raise")

    printed, _ = process.communicate(timeout=60)

    assert (process.returncode, printed) == (0, "served\n")
