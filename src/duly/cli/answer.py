"""A command's answer: one JSON document for programs, or text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from duly.cli.parser import Arguments, Parser


def offer_json(parser: Parser) -> None:
    """The option every command has."""
    parser.option(
        "--json", action="store_true", default=False, help="print one JSON document instead of text"
    )


def answer(args: Arguments, document: Mapping[str, Any], text: str) -> None:
    """Print whichever was asked for."""
    if args.json:
        print_json(document)
    elif text:
        print(text)


def print_json(document: Mapping[str, Any]) -> None:
    """Plain ASCII, so that no terminal or pipe can spoil it."""
    print(json.dumps(document, indent=2, default=str))
