"""`duly move`: carry everything from one store to another, and tell late producers where it went."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.parser import Arguments, Parser
from duly.cli.progress import Progress
from duly.cli.target import refuse_missing_file
from duly.cli.words import counted
from duly.clock import SystemClock
from duly.durations import duration
from duly.errors import DefinitionError
from duly.move import Inventory, Moved, Mover, taken_stock, undo
from duly.settings import load
from duly.stores import open_store
from duly.stores.contract import Selection
from duly.stores.house import House, Notice, Stage
from duly.stores.sqlite.address import parse
from duly.urls import masked


def arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="the URL of the store to leave")
    parser.add_argument("destination", nargs="?", metavar="TARGET", help="the URL of an empty store")
    parser.option(
        "--wait",
        type=_patience,
        default=timedelta(seconds=60),
        metavar="TIME",
        help="wait so long for running jobs (60s)",
    )
    parser.option("--dry-run", action="store_true", default=False, help="change nothing; say what would go")
    parser.option("--undo", action="store_true", default=False, help="open a source again that is not gone")
    parser.option("--namespace", is_setting=True, metavar="NAME", help="the namespace in the source (duly)")
    parser.option("--to-namespace", metavar="NAME", help="the namespace in the target (as in the source)")
    offer_json(parser)


def _patience(text: str) -> timedelta:
    try:
        return duration(float(text) if text.replace(".", "", 1).isdigit() else text, what="wait")
    except DefinitionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: Arguments) -> int:
    if args.undo:
        return _undo(args)
    if not args.destination:
        raise UsageError("say where to: duly move SOURCE TARGET, each a URL such as sqlite:///duly.db")
    if args.dry_run:
        return _rehearse(args)
    with _source(args) as (source, source_name), _target(args) as (target, target_name):
        if source_name == target_name:
            raise UsageError(f"{source_name} cannot be moved to itself")
        progress = Progress("carried", source.run(source.count(Selection())))
        mover = Mover(
            source=source,
            target=target,
            source_name=source_name,
            target_name=target_name,
            wait=args.wait,
            tell=_teller(args, progress),
            advance=progress.reach,
        )
        try:
            moved = mover.run()
        finally:
            progress.close()
        return _told(args, mover, moved)


@contextmanager
def _opened(url: str, namespace: str | None) -> Generator[tuple[House, str]]:
    settings = load({"url": url, "namespace": namespace})
    store = open_store(settings, SystemClock())
    if not isinstance(store, House):
        raise UsageError(f"{masked(url)} ends with its process: nothing can be moved from or to it")
    try:
        yield store, _name(url, settings.namespace)
    finally:
        store.close()


def _name(url: str, namespace: str) -> str:
    """As others will be told, wherever they run: a file by its whole path, and no password."""
    shown = f"sqlite:///{parse(url).path}" if url.startswith("sqlite:") else masked(url)
    return shown if namespace == "duly" else f"{shown} (namespace {namespace})"


@contextmanager
def _source(args: Arguments) -> Generator[tuple[House, str]]:
    refuse_missing_file(args.source)
    with _opened(args.source, args.namespace) as opened:
        yield opened


@contextmanager
def _target(args: Arguments) -> Generator[tuple[House, str]]:
    with _opened(args.destination, args.to_namespace or args.namespace) as opened:
        yield opened


def _teller(args: Arguments, progress: Progress) -> Callable[[str], None]:
    """For people as it happens; a document holds no progress."""

    def tell(line: str) -> None:
        progress.close()
        if not args.json:
            print(line, flush=True)

    return tell


def _rehearse(args: Arguments) -> int:
    with _source(args) as (source, name):
        inventory, standing = taken_stock(source), source.run(source.notice())
    is_free = _is_free(args)
    way = f"{name} to {masked(args.destination)}"
    lines = [f"would move {way}: {_counts(inventory)}", _standing(standing)]
    lines.append("the target is empty" if is_free else "the target is not empty: it would be refused")
    document = _document(way, inventory, standing) | {"is_target_free": is_free}
    answer(args, document, "\n".join(line for line in lines if line))
    return Exit.OK if is_free or standing is not None else Exit.NO


def _is_free(args: Arguments) -> bool:
    """Whether the target could receive; a file that is not there could, and is not made for that."""
    if args.destination.startswith("sqlite:") and not os.path.exists(parse(args.destination).path):
        return True
    with _target(args) as (target, _):
        return target.run(target.notice()) is None and not target.run(target.count(Selection()))


def _counts(inventory: Inventory) -> str:
    counts = [f"{name} {number:,}" for name, number in inventory.counts().items() if number]
    return ", ".join(counts) or "nothing"


def _standing(notice: Notice | None) -> str:
    if notice is None:
        return ""
    has_gone = notice.stage is Stage.GONE
    return f"it {'has moved' if has_gone else 'is being moved'} to {notice.other}: {notice.stage}"


def _document(way: str, inventory: Inventory | None, notice: Notice | None) -> dict[str, Any]:
    return {
        "way": way,
        "stage": None if notice is None else notice.stage,
        "jobs": None if inventory is None else inventory.jobs,
        "counts": None if inventory is None else inventory.counts(),
        "digest": None if inventory is None else inventory.digest,
    }


def _told(args: Arguments, mover: Mover, moved: Moved) -> int:
    way = f"{mover.source_name} to {mover.target_name}"
    if moved.inventory is None:
        text = f"{way}: this move is finished"
    else:
        text = (
            f"moved {counted(moved.inventory.jobs, 'job')} from {way}: {_counts(moved.inventory)}\n"
            f"Now start everything with DULY_URL={mover.target_name}"
        )
    notice = mover.source.run(mover.source.notice())
    answer(args, _document(way, moved.inventory, notice), text)
    return Exit.OK


def _undo(args: Arguments) -> int:
    with _source(args) as (source, name):
        if not args.destination:
            notice = undo(source, None, name)
            left = f"; what had arrived at {notice.other} is cleared out by the next move there"
        else:
            with _target(args) as (target, _):
                notice, left = undo(source, target, name), ""
    answer(args, _document(name, None, None), f"{name} is open again, nothing has moved{left}")
    return Exit.OK


MOVE = Command(
    description="Carry everything from one store to another: nothing lost, nothing twice.",
    epilog=(
        "The source is sealed first: producers are told where it moves, workers finish what runs and end.\n"
        "A move that was interrupted goes on when the same is said again.\n"
        "Exit codes: 0 moved; 1 refused, or still running after --wait; 2 wrong words; 3 a store is away."
    ),
    arguments=arguments,
    run=run,
)
