"""An application for bodies that run in other processes: child processes, and workers that get killed.

Its store is DULY_URL, as for any application. Bodies tell the test what they do through files in
STORY_FOLDER: every line of a journal is one thing that happened, written at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

from duly import Duly, Retry, Run, SoftLimitExceeded

app = Duly()


class CloudError(Exception):
    """A fault that goes away by itself."""


def folder() -> Path:
    return Path(os.environ["STORY_FOLDER"])


def note(journal: str, line: object = "") -> None:
    """Append one line; O_APPEND keeps lines of several processes apart."""
    with open(folder() / journal, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def lines(journal: str) -> list[str]:
    """What was noted so far."""
    path = folder() / journal
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def wait_for(name: str, seconds: float = 100.0) -> None:
    """Until the test creates a file of this name."""
    deadline = time.monotonic() + seconds
    while not (folder() / name).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the test never created {name}")
        time.sleep(0.005)


# --- quick and slow -----------------------------------------------------------------------------


@app.task
def quick(n: int) -> None:
    note("quick", n)


@app.task
def slow(run: Run, name: str) -> None:
    """Runs until the test creates a file called `name`."""
    note("started", f"{name} {os.getpid()} {run.epoch} {run.attempt}")
    wait_for(name)
    note("finished", f"{name} {os.getpid()} {run.epoch}")


@app.task
async def slow_on_loop(run: Run, name: str) -> None:
    note("started", f"{name} {os.getpid()} {run.epoch} {run.attempt}")
    while not (folder() / name).exists():
        await asyncio.sleep(0.005)
    await asyncio.sleep(0)  # an order that came before the file did strikes here, not in the middle of a step
    note("finished", f"{name} {os.getpid()} {run.epoch}")


@app.task(executor="process", name="slow_alone")
def slow_alone(run: Run, name: str) -> None:
    note("started", f"{name} {os.getpid()} {run.epoch} {run.attempt}")
    wait_for(name)
    note("finished", f"{name} {os.getpid()} {run.epoch}")


@app.task(delivery="at_most_once")
def once(name: str) -> None:
    note("started", name)
    wait_for(name)
    note("finished", name)


@app.task(executor="process", keep_result="1h")
def where(word: str) -> tuple[str, int]:
    return word, os.getpid()


@app.task(executor="process", keep_result="1h")
async def where_on_loop(word: str) -> tuple[str, int]:
    await asyncio.sleep(0)
    return word, os.getpid()


@app.task(executor="process")
def report(run: Run) -> None:
    run.progress(1, 2, "half way")
    wait_for("reported")


@app.task(executor="process")
def put_off(run: Run) -> None:
    run.defer("1h")
    raise ValueError("after the deferral")


# --- limits -------------------------------------------------------------------------------------


FOREVER = 100.0
"""Seconds that no limit leaves to a body, however slow the machine."""


def _burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@app.task(soft_limit="100ms")
def burn_in_thread() -> None:
    try:
        _burn(FOREVER)
    except Exception:  # a soft limit must not be swallowed by this
        note("swallowed")


@app.task(soft_limit="100ms")
async def sleep_on_loop() -> None:
    try:
        await asyncio.sleep(FOREVER)
    except Exception:
        note("swallowed")


@app.task(soft_limit="100ms", executor="process")
def sleep_in_child() -> None:
    try:
        time.sleep(FOREVER)
    except Exception:
        note("swallowed")


@app.task(soft_limit="100ms", keep_result="1h", executor="process")
def tidy_up() -> str:
    try:
        time.sleep(FOREVER)
    except SoftLimitExceeded:
        return "tidied"
    return "never interrupted"


@app.task(hard_limit="300ms")
def stubborn() -> None:
    note("stubborn", os.getpid())
    while True:
        try:
            time.sleep(FOREVER)
        except BaseException:
            note("resisted")


@app.task(hard_limit="300ms")
async def stubborn_on_loop() -> None:
    note("stubborn", os.getpid())
    time.sleep(FOREVER)  # noqa: ASYNC251  blocks its loop on purpose


@app.task(hard_limit="300ms", retry=Retry(on=CloudError, attempts=20, backoff="fixed", first="0s"))
def slow_at_first(run: Run) -> None:
    """On a busy machine a later try may be too slow as well."""
    note("attempts", run.attempt)
    if run.attempt == 1:
        time.sleep(FOREVER)


@app.task(
    hard_limit="60s",
    soft_limit="100ms",
    retry=Retry(on=SoftLimitExceeded, attempts=20, backoff="fixed", first="0s"),
)
def soft_then_well(run: Run) -> None:
    note("attempts", run.attempt)
    if run.attempt == 1:
        time.sleep(FOREVER)


@app.task(executor="process")
def resist() -> None:
    """Ends by no exception at all."""
    note("resisting", os.getpid())
    while True:
        try:
            time.sleep(FOREVER)
        except BaseException:
            note("resisted")


# --- deaths -------------------------------------------------------------------------------------


def _die(how: str) -> None:
    match how:
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "SIGSEGV":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case _:
            raise ValueError(how)


@app.task(executor="process")
def die(run: Run, how: str, times: int) -> None:
    """Dies so many times, then ends well."""
    note("deaths", f"{how} {run.attempt}")
    if len(lines("deaths")) <= times:
        _die(how)


@app.task
def take_the_worker_along(run: Run) -> None:
    """No limit and no process of its own: at first it kills the worker itself."""
    note("deaths", os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(executor="process", keep_result="1h")
def leave(how: str) -> str:
    if how == "SystemExit":
        raise SystemExit(3)
    raise KeyboardInterrupt


@app.perpetual(every="1h", executor="process")
def poll_and_die_once() -> None:
    note("deaths")
    if len(lines("deaths")) == 1:
        _die("SIGKILL")


@app.task(executor="process")
def throttle_from_child(run: Run, *, fails: bool) -> None:
    run.throttle("1h")
    if fails:
        raise ValueError("after the throttle")


# --- workers that come and go -------------------------------------------------------------------


@app.task
def where_am_i() -> None:
    """Noted per process start: a worker that starts afresh keeps its number."""
    note("incarnations", INCARNATION)


INCARNATION = time.monotonic_ns()


@app.task
def tick(run: Run) -> None:
    assert run.tick is not None
    note("ticks", run.tick.timestamp())


if "STORY_TICKS" in os.environ:
    app.schedule(
        every=os.environ["STORY_TICKS"], missed="all", max_catch_up=10_000, grace="1m", overlap="queue_one"
    )(tick)
