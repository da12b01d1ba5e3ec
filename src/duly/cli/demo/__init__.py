"""`duly demo`: real workers on a real file, one of them killed and one frozen before your eyes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from duly.cli.answer import offer_json, print_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, Refusal
from duly.cli.parser import Arguments, Parser, at_least_one

if TYPE_CHECKING:
    from duly.cli.demo.story import Outcome
    from duly.cli.demo.views import View

FOLDER = "DULY_DEMO_FOLDER"


def arguments(parser: Parser) -> None:
    parser.option(
        "--seconds",
        type=at_least_one,
        default=15,
        metavar="N",
        help="how long, about (15; at least 12 are used)",
    )
    parser.option("--plain", action="store_true", default=False, help="lines instead of a live view")
    offer_json(parser)


def run(args: Arguments) -> int:
    from duly.cli.demo.audit import audit, text
    from duly.cli.demo.views import open_view
    from duly.stores.sqlite.doorbell import bells_of

    view = open_view(plain=args.plain, stream=sys.stderr if args.json else sys.stdout)
    with tempfile.TemporaryDirectory(prefix="duly-demo-") as name, _killable():
        os.environ[FOLDER] = name  # read by the application, here and in its workers
        try:
            report = audit(_play(Path(name), view, args.seconds), Path(name))
        finally:
            view.close()
            del os.environ[FOLDER]
            shutil.rmtree(bells_of(str(Path(name) / "duly.db")), ignore_errors=True)  # may lie elsewhere
    if args.json:
        print_json(report.document())
    else:
        print(text(report))
    return Exit.OK if report.is_sound else Exit.NO


def _play(folder: Path, view: View, seconds: float) -> Outcome:
    from duly.cli.demo.crew import Crew
    from duly.cli.demo.story import Story, StoryStuck

    with Crew(folder) as crew:
        try:
            return Story(crew, view, seconds).play()
        except StoryStuck as error:
            print(crew.logs(), file=sys.stderr)
            raise Refusal(f"the demo came to a halt: {error}") from error


@contextmanager
def _killable() -> Generator[None]:
    """SIGTERM unwinds like Ctrl-C, so that no worker and no file is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


DEMO = Command(
    description="Watch Duly work on a file of its own: one-off, scheduled and perpetual tasks, while one\n"
    "worker is killed with kill -9 and another is frozen until its lease has run out.",
    epilog="Exit code 0 only if nothing was lost or done twice. Nothing is left behind.",
    arguments=arguments,
    run=run,
)
