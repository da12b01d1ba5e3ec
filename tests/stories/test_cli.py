"""`duly` as a person uses it: real processes in an empty folder."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 90.0
"""Seconds that a busy machine may need for what takes a few."""

QUICKSTART = """
from duly import Duly
app = Duly()
@app.task
def hello(name: str) -> None: print(f"hello {name}")
if __name__ == "__main__": hello.enqueue("world")
"""

SHOP = """
import asyncio, logging, os, time
import duly
app = duly.Duly(lease="30s")
log = logging.getLogger("shop")

@app.task
def mail(to: str) -> None:
    log.warning("writing to %s", to)
    if to == "nobody":
        raise LookupError(to)

@app.task
def nap(seconds: float) -> None:
    open(f"began-{os.getpid()}", "w").close()
    time.sleep(seconds)

@app.task
async def doze(seconds: float) -> None:
    open(f"began-{os.getpid()}", "w").close()
    await asyncio.sleep(seconds)

@app.task(retry=duly.Retry(on=OSError, attempts=2, first="10ms"))
def slip(run: duly.Run) -> None:
    open(f"began-{run.attempt}", "w").close()
    raise OSError("slippery")
"""


@dataclass(slots=True)
class Folder:
    """A folder with an application in it, and the processes started there."""

    path: Path
    started: list[subprocess.Popen[str]]

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.path,
            env={**kept, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def duly(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return self.start("-m", "duly", *words, **variables)

    def run(self, *words: str, **variables: str) -> tuple[int, str, str]:
        """A command to its end."""
        process = self.duly(*words, **variables)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def python(self, code: str) -> None:
        process = self.start("-c", code)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err

    def jobs(self) -> list[dict[str, Any]]:
        code, out, err = self.run("jobs", "--json")
        assert code == 0, err
        found: list[dict[str, Any]] = json.loads(out)["jobs"]
        return found

    def until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_true():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)

    def until_a_nap_began(self, count: int = 1) -> None:
        self.until(lambda: len(list(self.path.glob("began-*"))) >= count, "a nap to begin")


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Folder]:
    folder = Folder(tmp_path, [])
    folder.write("shop.py", SHOP)
    yield folder
    for process in folder.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def outdate(folder: Folder) -> None:
    """As a migration by newer code leaves the store."""
    connection = sqlite3.connect(folder.path / "duly.db")
    connection.execute("update duly_schema set oldest_code = 999")
    connection.commit()
    connection.close()


def test_six_lines_and_two_commands_are_a_quickstart(folder: Folder) -> None:
    folder.write("hello.py", QUICKSTART)
    folder.start("hello.py").communicate(timeout=PATIENCE)

    code, out, err = folder.run("worker", "hello:app", "--burst")

    assert (code, out) == (0, "hello world\n"), err


def test_a_waiting_job_is_done_soon_after_the_start(folder: Folder) -> None:
    folder.python("import shop; shop.nap.enqueue(0)")

    worker = folder.duly("worker", "shop:app")
    folder.until_a_nap_began()
    worker.terminate()

    assert worker.wait(60) == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["shp:app"], "there is no module 'shp'"),
        (["shop:ap"], "Did you mean 'app'?"),
        ([], "say which application"),
        (["shop:app", "-c", "0"], "'0' is not a whole number of at least 1"),
        (["shop:app", "--grace", "soon"], "grace='soon' is not a span of time"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_two(folder: Folder, words: list[str], complaint: str) -> None:
    code, out, err = folder.run("worker", *words)

    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert not (folder.path / "duly.db").exists()


def test_a_burst_says_who_works_on_what_and_logs_failures_always(folder: Folder) -> None:
    folder.python("import shop; shop.mail.enqueue('nobody'); shop.slip.enqueue()")

    code, _, err = folder.run("worker", "shop", "--burst", "-q", "default,other", "--name", "ann")

    assert code == 0
    assert "worker ann on sqlite:///duly.db" in err
    assert "4 tasks, 0 schedules, queues default, other, 20 at a time" in err
    assert "(shop.mail) failed" in err
    assert "LookupError: nobody" in err


def test_a_try_that_failed_is_logged_with_its_reason(folder: Folder) -> None:
    folder.python("import shop; shop.slip.enqueue()")

    worker = folder.duly("worker", "shop:app")
    folder.until_a_nap_began(2)
    worker.terminate()
    _, err = worker.communicate(timeout=PATIENCE)

    assert "will retry shop.slip" in err
    assert "(OSError: slippery)" in err


def test_json_logs_carry_the_job_and_what_was_bound(folder: Folder) -> None:
    folder.python(
        "import duly, shop\n"
        "with duly.bind(user_id=7): shop.mail.using(key='lease:42').enqueue('ann')"
    )  # fmt: skip

    code, _, err = folder.run("worker", "shop:app", "--burst", DULY_LOG_FORMAT="json", DULY_VERBOSE="1")

    assert code == 0
    lines = [json.loads(line) for line in err.splitlines()]
    inside = next(line for line in lines if line["logger"] == "shop")
    ended = next(line for line in lines if line["logger"] == "duly.run")
    for line in (inside, ended):
        assert (line["task"], line["key"], line["attempt"], line["epoch"]) == ("shop.mail", "lease:42", 1, 1)
        assert line["context"] == {"user_id": 7}
    assert (ended["event"], inside["job_id"]) == ("done", ended["job_id"])


def test_a_terminated_worker_finishes_what_runs_and_takes_nothing_more(folder: Folder) -> None:
    folder.python("import shop; shop.nap.enqueue(3); shop.mail.enqueue('ann')")
    worker = folder.duly("worker", "shop:app", "-c", "1")
    folder.until_a_nap_began()

    worker.terminate()

    assert worker.wait(60) == 0
    assert [job["state"] for job in folder.jobs()] == ["waiting", "done"]


def test_grace_bounds_how_long_a_stopping_worker_waits(folder: Folder) -> None:
    folder.python("import shop; shop.doze.enqueue(60)")
    worker = folder.duly("worker", "shop:app", "--grace", "100ms")
    folder.until_a_nap_began()

    worker.send_signal(signal.SIGINT)

    assert worker.wait(60) == 0
    (job,) = folder.jobs()
    assert (job["state"], job["attempt"]) == ("waiting", 0)


def test_a_worn_out_worker_starts_afresh_and_loses_nothing(folder: Folder) -> None:
    folder.python("import shop; shop.mail.enqueue_many([((str(n),), {}) for n in range(7)])")

    code, _, err = folder.run("worker", "shop:app", "--burst", "-c", "1", "--max-jobs", "3")

    assert code == 0
    assert err.count("starting afresh") >= 1
    assert {job["state"] for job in folder.jobs()} == {"done"}


def test_an_internal_error_ends_the_worker_loudly(folder: Folder) -> None:
    folder.write(
        "broken.py", SHOP + "\nimport duly.worker.pump\nduly.worker.pump.Pump.turn = lambda self: 1 / 0\n"
    )

    code, _, err = folder.run("worker", "broken:app")

    assert code == 70
    assert "ZeroDivisionError" in err


def test_a_worker_that_newer_code_has_overtaken_leaves_in_peace(folder: Folder) -> None:
    folder.python("import shop; shop.mail.enqueue('ann')")
    outdate(folder)

    code, _, err = folder.run("worker", "shop:app")

    assert code == 0
    assert "newer code has taken over" in err


def test_a_worker_is_overtaken_by_a_migration_while_it_works(folder: Folder) -> None:
    folder.write("quick.py", SHOP.replace('"30s"', '"4s"'))  # it looks at every beat
    folder.python("import quick; quick.nap.enqueue(0.3)")
    worker = folder.duly("worker", "quick:app")
    folder.until_a_nap_began()

    outdate(folder)
    _, err = worker.communicate(timeout=PATIENCE)

    assert worker.returncode == 0
    assert "newer code has taken over" in err


def test_a_file_that_cannot_be_used_ends_the_worker_at_once(folder: Folder) -> None:
    folder.write("duly.db", "not a database, but long enough to be taken for one\n" * 50)

    code, _, err = folder.run("worker", "shop:app")

    assert code == 3
    assert "not a SQLite database" in err
    assert "Traceback" not in err


def test_reload_starts_afresh_when_the_code_changes(folder: Folder) -> None:
    pytest.importorskip("watchfiles")
    folder.python("import shop; shop.nap.enqueue(0)")
    worker = folder.duly("worker", "shop:app", "--reload")
    folder.until_a_nap_began()

    folder.write("shop.py", SHOP.replace("began-", "changed-"))
    folder.python("import shop; shop.nap.enqueue(0)")
    folder.until(lambda: any(folder.path.glob("changed-*")), "the new code to run")
    worker.terminate()

    assert worker.wait(60) == 0


def test_a_person_finds_and_mends_a_failure(folder: Folder) -> None:
    folder.python("import shop; shop.mail.using(key='letter').enqueue('nobody')")
    folder.run("worker", "shop:app", "--burst")

    (job,) = folder.jobs()
    assert "LookupError: nobody" in folder.run("show", job["id"], "-a", "shop:app")[1]
    assert folder.run("retry", "--state", "failed", "--yes")[0] == 0
    code, why, _ = folder.run("why", "mail", "letter")
    folder.write("shop.py", SHOP.replace('"nobody"', '"nemo"'))
    folder.run("worker", "shop:app", "--burst")

    assert code == 0
    assert "no worker is alive" in why.splitlines()[-1]
    assert [job["state"] for job in folder.jobs()] == ["done"]


def test_a_reader_that_has_seen_enough_is_no_error(folder: Folder) -> None:
    folder.python("import shop; shop.mail.enqueue_many([((str(n),), {}) for n in range(2000)])")

    process = folder.duly("jobs", "--limit", "2000")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(60) == 0
    assert process.stderr.read() == ""


@pytest.mark.chaos
@pytest.mark.slow
def test_the_demo_survives_its_own_harm_and_leaves_nothing_behind(folder: Folder) -> None:
    code, out, err = folder.run("demo", "--plain", "--json", TMPDIR=str(folder.path))

    assert code == 0, err + out
    document = json.loads(out)
    assert (document["lost"], document["doubled"]) == ([], [])
    assert document["refused"]["by_store"] >= 1
    assert document["recovered"] >= 1
    assert "kill -9" in err
    assert [path.name for path in folder.path.iterdir()] == ["shop.py"]
