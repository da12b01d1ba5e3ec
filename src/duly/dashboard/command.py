"""`duly dashboard`: serve the dashboard of an application."""

from __future__ import annotations

import argparse
import ipaddress
import secrets
import signal
import sys
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Final

from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.parser import Arguments, Parser
from duly.cli.target import offer_store, opened
from duly.errors import MissingExtra

if TYPE_CHECKING:
    from duly.dashboard.guard import Asgi

HOST: Final = "127.0.0.1"
PORT: Final = 8800


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    parser.option("--host", default=HOST, help=f"the address to listen at ({HOST})")
    parser.option("--port", type=_port, default=PORT, metavar="N", help=f"the port ({PORT})")
    parser.option("--token", help="what operators sign in with; better as the variable than on the line")
    parser.option("--viewer-token", help="what those sign in with who may only look")
    parser.option("--environment", default="", metavar="NAME", help="shown on every page; production in red")
    parser.option(
        "--behind-https",
        action="store_true",
        default=False,
        help="a proxy in front speaks HTTPS: cookies are for HTTPS only",
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 1 to 65535")
    return int(text)


def run(args: Arguments) -> int:
    _check_extra()
    token = chosen_token(args)
    with opened(args, creates=True) as app:
        from duly.dashboard.errands import stop_all
        from duly.dashboard.site import asgi

        app.open()
        site = asgi(
            app,
            token=token,
            viewer_token=args.viewer_token or None,
            environment=args.environment,
            secure_cookies=True if args.behind_https else None,
        )
        _say_hello(args, token)
        before = signal.signal(signal.SIGTERM, _leave)
        try:
            _serve(site, args)
        finally:
            stop_all()
            signal.signal(signal.SIGTERM, before)
    return Exit.OK


def _leave(number: int, frame: FrameType | None) -> None:
    """The server passes a signal on when it has ended; by default that would kill what is to be tidied up."""
    raise SystemExit(Exit.OK)


def _check_extra() -> None:
    if find_spec("uvicorn") is None:
        raise MissingExtra("The dashboard", "dashboard")


def chosen_token(args: Arguments) -> str | None:
    """The one that was given. On this machine alone one is made up; for others somebody must choose it."""
    if args.token or args.viewer_token:
        return args.token or None
    if not is_loopback(args.host):
        raise UsageError(
            f"{args.host} can be reached by others: set DULY_TOKEN (such as {secrets.token_urlsafe(24)}) "
            "or DULY_VIEWER_TOKEN first"
        )
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name may lead anywhere
        return False


def _say_hello(args: Arguments, token: str | None) -> None:
    lines = [f"The dashboard is at http://{_shown(args.host)}:{args.port}/ ; Ctrl-C stops it."]
    if not (args.token or args.viewer_token):
        lines.append(f"Sign in with the token {token}")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _serve(site: Asgi, args: Arguments) -> None:
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            site,
            host=args.host,
            port=args.port,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    server.run()
    if not server.started:
        sys.stderr.write(f"duly: nothing can listen at {args.host}:{args.port}\n")
        raise SystemExit(Exit.NO)


DASHBOARD = Command(
    description="Serve a web page that shows jobs, schedules and workers, and takes orders.",
    epilog="Nobody gets in without a token. Without DULY_TOKEN one is made up, for this machine alone.",
    arguments=arguments,
    run=run,
)
