"""`duly worker`: run the tasks of an application until told to stop."""

from __future__ import annotations

import argparse
import asyncio
import atexit
import ctypes
import gc
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.health import answering, offer_port
from duly.cli.parser import Arguments, Names, Parser, Raise, at_least_one, names, size
from duly.cli.target import find_app, offer_app
from duly.cli.words import counted
from duly.errors import DefinitionError, SchemaMismatch
from duly.urls import masked

if TYPE_CHECKING:
    from duly.app import App
    from duly.worker import Worker

log = logging.getLogger("duly.worker")

LAST_WORD = 10.0
"""Seconds a stopped worker may take to close its loop; a body stuck in a thread must not keep it for ever."""

SETTLED = 1.0
"""Seconds after which what starting took is given back."""

SELDOM = 10_000
"""Objects between two looks for garbage; Python's own 700 are fifty jobs."""


def arguments(parser: Parser) -> None:
    offer_app(parser, positional=True)
    _offer_work(parser)
    _offer_life(parser)
    offer_port(parser)
    _offer_logs(parser)


def _offer_work(parser: Parser) -> None:
    parser.option(
        "-c",
        "--concurrency",
        type=at_least_one,
        metavar="N",
        is_setting=True,
        help="run so many at a time (20)",
    )
    parser.option("-q", "--queues", action=Names, type=names, metavar="NAME", help="serve only these queues")
    parser.option("--burst", action="store_true", default=False, help="end when there is nothing to do")


def _offer_life(parser: Parser) -> None:
    parser.option("--name", help="a label for this worker (host:pid)")
    parser.option(
        "--grace",
        type=_grace,
        metavar="TIME",
        is_setting=True,
        help="let running tasks finish for so long (30s)",
    )
    parser.option("--max-jobs", type=at_least_one, metavar="N", help="start afresh after so many runs")
    parser.option(
        "--max-memory", type=size, metavar="SIZE", help="start afresh above this size, such as 300MB"
    )
    parser.option("--reload", action="store_true", default=False, help="start afresh when the code changes")


def _offer_logs(parser: Parser) -> None:
    from duly.cli.logs import LEVELS

    parser.option(
        "-v", "--verbose", action=Raise, default=0, help="log every run; -vv also what the engine does"
    )
    parser.option("--log-level", choices=LEVELS, help="the least that is logged (info)")
    parser.option("--log-format", choices=("text", "json"), help="lines for people or objects for programs")


def _grace(text: str) -> timedelta:
    from duly.durations import duration

    try:
        return duration(float(text) if text.replace(".", "", 1).isdigit() else text, what="grace")
    except DefinitionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: Arguments) -> int:
    if args.reload:
        from duly.cli.reload import serve_and_watch

        return serve_and_watch(args.words)
    folder = os.getcwd()
    app = _application(args)
    from duly.cli.logs import set_up

    set_up(level=args.log_level, form=args.log_format, verbosity=args.verbose)
    worker = _worker(app, args)
    with answering(app, worker, args):
        return _serve(app, worker, folder)


def _application(args: Arguments) -> App:
    name = args.target or args.app
    if not name:
        raise UsageError("say which application: duly worker module:object, or DULY_APP")
    return find_app(name)


def _worker(app: App, args: Arguments) -> Worker:
    from duly.worker import Worker

    return Worker(
        app,
        concurrency=args.concurrency,
        queues=args.queues,
        burst=args.burst,
        name=args.name,
        grace=args.grace,
        max_jobs=args.max_jobs,
        max_memory=args.max_memory,
    )


def _serve(app: App, worker: Worker, folder: str) -> int:
    from duly.cli.logs import run_lines, tells_runs
    from duly.worker.worker import WorkerDied

    say_hello(app, worker)
    _collect_rarely()
    app.events.subscribe(run_lines(), wants=tells_runs)
    code = Exit.OK
    try:
        _run_loop(worker, folder)
    except WorkerDied as error:
        if isinstance(error.__cause__, SchemaMismatch):
            return _overtaken(error.__cause__)
        code = Exit.DIED
    except SchemaMismatch as error:
        return _overtaken(error)
    app.close()
    if code is Exit.OK and worker.wants_successor:
        start_afresh(folder)
    log.info("worker %s has ended", worker.name)
    return code


def _run_loop(worker: Worker, folder: str) -> None:
    from duly.engine import serve

    async def serve_then_insist() -> None:
        asyncio.get_running_loop().call_later(SETTLED, _give_back)
        try:
            await serve(worker)
        except BaseException:
            _insist(lambda: os._exit(Exit.DIED))
            raise
        _insist(lambda: start_afresh(folder) if worker.wants_successor else os._exit(Exit.OK))

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve_then_insist())


def _insist(end: Callable[[], None]) -> None:
    """Closing a loop waits for threads a body left behind; after a last word nobody waits any more."""
    timer = threading.Timer(LAST_WORD, end)
    timer.daemon = True
    timer.start()


def _collect_rarely() -> None:
    """Look for garbage less often: a run leaves no cycle behind, and looking took a sixth of a busy worker.

    What was imported stays anyway and is not looked at any more. An application that has set a pace of its
    own keeps it.
    """
    often, *others = gc.get_threshold()
    if 0 < often < SELDOM:
        gc.set_threshold(SELDOM, *others)
        gc.freeze()


def _give_back() -> None:
    """What starting took and nobody needs any more, a megabyte, goes back to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # not in every C library
        trim(0)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed."""
    if find_spec("uvloop") is None:
        return None
    uvloop: Any = importlib.import_module("uvloop")
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def start_afresh(folder: str) -> None:
    """Become a new process of the same command: recycling needs no supervisor."""
    log.info("starting afresh")
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # exec would skip what a normal end runs
    logging.shutdown()
    sys.stdout.flush()
    os.chdir(folder)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _overtaken(error: SchemaMismatch) -> int:
    """Newer code has migrated the store: a deploy is under way and this process is its past."""
    log.warning("this worker ends, newer code has taken over: %s", error)
    return Exit.OK


def say_hello(app: App, worker: Worker) -> None:
    """Two lines: who works where, and on what."""
    from duly import __version__

    queues = "all queues" if worker.queues is None else f"queues {', '.join(sorted(worker.queues))}"
    log.info("duly %s, worker %s on %s", __version__, worker.name, masked(app.settings.url))
    log.info(
        "%s, %s, %s, %d at a time; Ctrl-C stops",
        counted(len(app.tasks), "task"),
        counted(len(app.schedule_terms), "schedule"),
        queues,
        worker.concurrency,
    )
    if not app.tasks:
        log.warning("the application has no tasks: is the module that defines them imported?")


WORKER = Command(
    description="Run the tasks of an application.",
    epilog=(
        "SIGTERM or Ctrl-C lets running tasks finish, a second one hands them back at once.\n"
        "Exit codes: 0 stopped, idle with --burst, or newer code has taken over; 2 wrong words or module;\n"
        "3 the store cannot be used; 70 an internal error."
    ),
    arguments=arguments,
    run=run,
)
