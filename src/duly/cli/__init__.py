"""`duly`: the command line.

Each command lives in a module of its own, imported only when it is called: `duly worker` must not pay
for the demo. Whatever goes wrong on purpose becomes one line on stderr and a documented exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from duly.cli.commands import COMMANDS, Command, Entry, find_entry, overview
from duly.cli.exits import Exit, exit_code_of, is_expected
from duly.cli.parser import Arguments, Parser
from duly.cli.words import one_line
from duly.urls import masked


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is what docs/reference/cli.md says."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a key in Greek must not end a command on an ASCII terminal
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except BrokenPipeError:  # `duly jobs | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.OK
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        return _help(words[1:])
    if words[0] in ("-V", "--version"):
        from duly import __version__

        print(f"duly {__version__}")
        return Exit.OK
    try:
        entry = find_entry(words[0])
    except LookupError as error:
        return _complain(error.args[0], Exit.USAGE)
    command = entry.load()
    return _perform(command, parser_of(entry, command).read(words[1:]))


def _help(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        return _dispatch([words[0], "--help"])
    print(overview())
    return Exit.OK


def parser_of(entry: Entry, command: Command) -> Parser:
    """The command's own parser, with the options every command has."""
    parser = Parser(prog=f"duly {entry.name}", description=command.description, epilog=command.epilog)
    command.arguments(parser)
    parser.option(
        "--traceback", action="store_true", default=False, help="show the whole traceback of an error"
    )
    return parser


def _perform(command: Command, args: Arguments) -> int:
    try:
        code = command.run(args)
        sys.stdout.flush()
        return code
    except Exception as error:
        if args.traceback or not is_expected(error):
            raise
        return _tell_error(error, args)


def _tell_error(error: Exception, args: Arguments) -> int:
    if args.get("json"):
        from duly.cli.answer import print_json

        print_json({"error": masked(str(error)), "kind": type(error).__name__})
    return _complain(str(error), exit_code_of(error))


def _complain(message: str, code: Exit) -> int:
    print(f"duly: {one_line(masked(message))}", file=sys.stderr)
    return code
