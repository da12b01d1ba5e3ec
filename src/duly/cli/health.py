"""`duly health`, and the port it asks: how a worker is, for probes that run a command.

The same variable tells the worker where to answer and the probe where to ask, so that in one container both
need no words: DULY_METRICS_PORT=9464.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.parser import Arguments, Parser
from duly.cli.watch import interval
from duly.cli.words import shown

if TYPE_CHECKING:
    from duly.app import App
    from duly.worker import Worker

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
LOOPBACK = "127.0.0.1"


def offer_port(parser: Parser) -> None:
    """For the worker that answers and the probe that asks."""
    parser.option(
        "--metrics-port",
        type=_port,
        metavar="N",
        help="where /metrics, /health and /live are; 0: any free port",
    )
    parser.option(
        "--metrics-host", default=LOOPBACK, metavar="HOST", help=f"the address for that port ({LOOPBACK})"
    )


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


@contextmanager
def answering(app: App, worker: Worker, args: Arguments) -> Generator[None]:
    """While a worker serves: whoever asks at its port is answered, if it was given one."""
    if args.metrics_port is None:
        yield
        return
    from duly.metrics import serve

    with serve(app, port=args.metrics_port, host=args.metrics_host, worker=worker):
        yield


# --- asking ---------------------------------------------------------------------------------------


def arguments(parser: Parser) -> None:
    offer_port(parser)
    parser.option(
        "--live",
        action="store_true",
        default=False,
        help="ask only whether a new start would help: a store that is away is no reason",
    )
    parser.option(
        "--timeout", type=interval, default=timedelta(seconds=3), metavar="TIME", help="wait so long (3s)"
    )
    offer_json(parser)


def run(args: Arguments) -> int:
    if not args.metrics_port:
        raise UsageError(
            "say where the worker answers: --metrics-port N, or DULY_METRICS_PORT as for the worker"
        )
    document = _asked(_address(args), args.timeout)
    answer(args, document, "ok" if document["ok"] else shown(f"not ok: {document['worker']}"))
    return Exit.OK if document["ok"] else Exit.NO


def _address(args: Arguments) -> str:
    host: str = EVERYWHERE.get(args.metrics_host) or args.metrics_host
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{args.metrics_port}/{'live' if args.live else 'health'}"


def _asked(address: str, timeout: timedelta) -> dict[str, Any]:
    """What the worker says of itself; that nobody answers is an answer too."""
    from http.client import HTTPException  # long to load, and a worker that shares this file never asks
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener

    opener = build_opener(ProxyHandler({}))  # a proxy knows nothing of this machine's ports
    try:
        with opener.open(address, timeout=timeout.total_seconds()) as response:
            return _read(response.read())
    except HTTPError as refusal:
        with refusal:
            return _read(refusal.read())
    except (OSError, HTTPException) as error:
        return {"ok": False, "worker": f"nobody answers at {address}: {getattr(error, 'reason', error)}"}


def _read(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
        return {"ok": found["ok"] is True, "worker": found["worker"]}
    except (ValueError, KeyError, TypeError):
        return {"ok": False, "worker": "what answers there is no worker"}


HEALTH = Command(
    description="Ask a worker on this machine whether it can take work.",
    epilog=(
        "For probes that run a command; the worker needs --metrics-port.\n"
        "Exit codes: 0 it is well; 1 it is not, or nobody answers; 2 no port was said."
    ),
    arguments=arguments,
    run=run,
)
