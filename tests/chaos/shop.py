"""The application of a chaos run: a task of every kind, each of which writes down what it sees.

Arguments carry the name of the operation that asked for them (`op`), so a start can be traced to its request
also where the answer to that request was lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from tests.chaos.journal import Journal, boot, own_journal
from tests.chaos.tables import OWN_TABLE

from duly import Duly, Retry, Run, codec
from duly.app import AnyTask
from duly.errors import StoreError

app = Duly()
journal: Final[Journal] = own_journal()

STEP: Final = 0.05
"""How often a body that takes its time says that it is alive."""


class CloudError(Exception):
    """A fault that goes away by itself."""


def digest(value: Any) -> str:
    """A fingerprint of arguments, types included."""
    return hashlib.sha256(codec.pack_value(value).encode()).hexdigest()[:16]


@contextmanager
def told(run: Run, op: str, payload: Any = None, **more: Any) -> Generator[None]:
    """A body's first and last word."""
    who = {"id": run.id, "epoch": run.epoch, "task": run.task}
    tick = None if run.tick is None else run.tick.timestamp()
    facts = {"key": run.key, "generation": run.generation, "attempt": run.attempt, "tick": tick, "op": op}
    journal.write("start", **who, **facts, digest=digest(payload), token=run.idempotency_key, **more)
    try:
        yield
    except BaseException as error:
        journal.write("end", **who, outcome=type(error).__name__)
        raise
    journal.write("end", **who, outcome="ok")


def alive(run: Run) -> None:
    """A body says that it still runs."""
    journal.write("alive", id=run.id, epoch=run.epoch)


def stay(run: Run, seconds: float) -> None:
    """Take a while, and say so."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alive(run)
        time.sleep(STEP)


async def astay(run: Run, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alive(run)
        await asyncio.sleep(STEP)


def asked(task: Any, op: str, payload: Any, **wishes: Any) -> str | None:
    """Enqueue, with the intent and the answer on record; the job's id, or None where nobody knows."""
    words = {word: value for word, value in wishes.items() if word != "connection"}
    asks = {"op": op, "task": task.name, "digest": digest(payload), "wishes": words}
    try:
        with journal.around("enqueue", **asks, in_transaction="connection" in wishes) as answer:
            handle = task.using(**wishes).enqueue(op, payload)
            answer |= {"id": handle.id, "generation": handle.generation, "decision": handle.decision}
    except StoreError:
        return None
    return str(handle.id)


# --- plain work ---------------------------------------------------------------------------------


@app.task(name="quick")
def quick(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        pass


@app.task(name="aquick")
async def aquick(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        await asyncio.sleep(0)


@app.task(name="slow")
async def slow(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        await astay(run, seconds)


@app.task(name="slow_thread")
def slow_thread(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        stay(run, seconds)


@app.task(name="slow_child", executor="process")
def slow_child(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        stay(run, seconds)


@app.task(name="once", delivery="at_most_once")
def once(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        time.sleep(STEP)


@app.task(name="once_child", delivery="at_most_once", executor="process")
def once_child(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        time.sleep(STEP)


@app.task(name="deferred")
def deferred(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        if int(hashlib.sha256(f"{op}{run.epoch}".encode()).hexdigest(), 16) % 2:
            run.defer("200ms")


@app.task(name="chain")
def chain(run: Run, op: str, links: int) -> None:
    """Asks for the next link from inside its body."""
    with told(run, op, links):
        if links:
            asked(chain, f"{op}.{run.epoch}", links - 1)


@app.task(name="bought")
def bought(run: Run, op: str, payload: Any) -> None:
    """Enqueued in the caller's own transaction."""
    with told(run, op, payload):
        pass


@app.task(name="bought_keyed")
def bought_keyed(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        pass


# --- exactly once: where the jobs lie in the database of their effects ----------------------------


EXACT: Final[list[AnyTask]] = []

if os.environ.get(OWN_TABLE):
    mark = "?" if app.settings.url.startswith("sqlite") else "%s"
    EFFECT = f"insert into effects values ({mark}, {mark}, {mark})"

    @app.task(name="exact", delivery="exactly_once")
    def exact(run: Run, op: str, failures: int) -> None:
        with told(run, op, failures):
            run.connection.execute(EFFECT, (run.idempotency_key, op, run.epoch))
            stay(run, 0.1)

    @app.task(name="aexact", delivery="exactly_once")
    async def aexact(run: Run, op: str, failures: int) -> None:
        with told(run, op, failures):
            await run.connection.execute(EFFECT, (run.idempotency_key, op, run.epoch))
            await astay(run, 0.1)

    @app.task(
        name="exact_flaky", delivery="exactly_once", retry=Retry(on=CloudError, attempts=4, first="300ms")
    )
    def exact_flaky(run: Run, op: str, failures: int) -> None:
        """What it wrote before it failed must not be there."""
        with told(run, op, failures):
            run.connection.execute(EFFECT, (run.idempotency_key, op, run.epoch))
            if run.attempt <= failures:
                raise CloudError(f"attempt {run.attempt}")

    @app.task(name="exact_child", delivery="exactly_once", executor="process")
    def exact_child(run: Run, op: str, failures: int) -> None:
        with told(run, op, failures):
            run.connection.execute(EFFECT, (run.idempotency_key, op, run.epoch))
            stay(run, 0.1)

    EXACT.extend([exact, aexact, exact_flaky, exact_child])


# --- failures -----------------------------------------------------------------------------------


RETRY: Final = Retry(on=CloudError, attempts=4, backoff="fixed", first="300ms")


@app.task(name="flaky", retry=RETRY)
def flaky(run: Run, op: str, failures: int) -> None:
    with told(run, op, failures):
        if run.attempt <= failures:
            raise CloudError(f"attempt {run.attempt}")


@app.task(name="doomed", retry=RETRY)
async def doomed(run: Run, op: str, payload: Any) -> None:
    """Fails with what is not worth another try."""
    with told(run, op, payload):
        raise ValueError(op)


@app.task(name="poison", executor="process")
def poison(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="poison_worker")
def poison_worker(run: Run, op: str, payload: Any) -> None:
    """Takes the worker along at first; from then on it dies alone."""
    with told(run, op, payload):
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="stubborn", hard_limit="700ms")
def stubborn(run: Run, op: str, payload: Any) -> None:
    """Ends by no exception at all."""
    with told(run, op, payload):
        while True:
            try:
                stay(run, 10)
            except BaseException:
                alive(run)


# --- keys ---------------------------------------------------------------------------------------


@app.task(name="queue_one", overlap="queue_one")
def queue_one(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        stay(run, seconds)


@app.task(name="skip", overlap="skip")
async def skip(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        await astay(run, seconds)


@app.task(name="allow", overlap="allow")
def allow(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        stay(run, seconds)


@app.task(name="cancel_previous", overlap="cancel_previous")
async def cancel_previous(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        await astay(run, seconds)


@app.task(name="keyed_flaky", retry=RETRY)
def keyed_flaky(run: Run, op: str, failures: int) -> None:
    """Its retry may be absorbed by a newer request, or be dropped because of a replace."""
    with told(run, op, failures):
        time.sleep(STEP)
        if run.attempt <= failures:
            raise CloudError(f"attempt {run.attempt}")


@app.task(name="guarded", unique_for="1500ms")
def guarded(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        pass


@app.task(name="trailing", unique_for="1s", trailing=True)
def trailing(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        pass


# --- limits -------------------------------------------------------------------------------------


@app.task(name="narrow", concurrency=2)
async def narrow(run: Run, op: str, seconds: float) -> None:
    with told(run, op, seconds):
        await astay(run, seconds)


@app.task(name="paced", rate="5/s")
def paced(run: Run, op: str, payload: Any) -> None:
    with told(run, op, payload):
        pass


@app.task(name="locked")
def locked(run: Run, op: str, name: str) -> None:
    with told(run, op, name):
        before = boot()
        with app.lock(name, ttl="2s", wait="10s") as held:
            journal.write("grip", name=name, token=held.token, asked=before, id=run.id)
            time.sleep(0.1)
            journal.write("letting_go", name=name, token=held.token, id=run.id)


# --- by themselves ------------------------------------------------------------------------------


@app.schedule(name="each_second", every="1s", missed="all", grace="1m", max_catch_up=100_000)
@app.task(name="ticked")
def ticked(run: Run) -> None:
    with told(run, f"tick {run.tick}"):
        pass


@app.schedule(name="each_2_seconds", every="2s", missed="last")
@app.task(name="ticked_last")
async def ticked_last(run: Run) -> None:
    with told(run, f"tick {run.tick}"):
        await astay(run, 0.3)


@app.schedule(name="each_cron", cron="* * * * *", missed="skip", overlap="allow")
@app.task(name="ticked_cron")
def ticked_cron(run: Run) -> None:
    with told(run, f"tick {run.tick}"):
        pass


@app.perpetual(name="pulse", every="400ms", automatic=True)
def pulse(run: Run) -> None:
    with told(run, "pulse"):
        pass


@app.perpetual(name="watch", every="500ms", overlap="allow")
async def watch(run: Run, op: str, pause: float) -> None:
    """Its timing is replaced while it runs: the newest must stay in force."""
    with told(run, op, pause):
        await astay(run, 0.2)
        run.again(after=pause)


@app.perpetual(name="steady", every="500ms")
def steady(run: Run, op: str, pause: float) -> None:
    with told(run, op, pause):
        stay(run, 0.1)
        run.again(after=pause)


def describe() -> str:
    """What the checker must know about the tasks, as their declarations say it."""
    tasks = {}
    for task in app.tasks.values():
        options = task.options
        tasks[task.name] = {
            "delivery": str(options.delivery),
            "overlap": str(options.overlap),
            "attempts": None if options.retry is None else options.retry.attempts,
            "concurrency": options.concurrency,
            "rate": None if options.rate is None else [options.rate.starts, options.rate.per.total_seconds()],
            "hard_limit": None if options.hard_limit is None else options.hard_limit.total_seconds(),
            "unique_for": None if options.unique_for is None else options.unique_for.total_seconds(),
            "trailing": options.trailing,
            "perpetual": task.cycle is not None,
            "automatic": task.cycle is not None and task.cycle.automatic,
            "stoppable": task.is_async or options.needs_process,
        }
    return json.dumps(tasks)
