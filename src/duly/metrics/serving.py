"""A small web server in a thread of its own: /metrics for Prometheus, /health and /live for probes."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

from duly.app import App
from duly.errors import DefinitionError
from duly.metrics.prometheus import Exposed
from duly.metrics.readings import Measures, Patient
from duly.metrics.vitals import Vitals

log = logging.getLogger("duly.metrics")

SLOWEST: Final = 5.0
"""Seconds a client may take to say what it wants."""
LOOK_UP: Final = 0.1
"""Seconds the end of a worker may have to wait for the server."""


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Server(ThreadingHTTPServer):
    """Answers each reader in a thread, so that a slow one keeps no probe waiting."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], measures: Measures) -> None:
        self.measures = measures
        self.exposed = Exposed(measures, with_others=True)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, Window)

    def server_bind(self) -> None:
        """As the library does, without asking the network for our name: that may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that went away is no news; a page that could not be made is."""
        level = logging.DEBUG if isinstance(sys.exception(), OSError) else logging.ERROR
        log.log(level, "a reader of metrics was not answered", exc_info=True)

    def page(self, path: str, accept: str) -> Page:
        """What is shown at a path."""
        if path == "/metrics":
            exposition = self.exposed.expose(accept)
            return Page(HTTPStatus.OK, exposition.content_type, exposition.body)
        vitals = self.measures.vitals()
        if path == "/health":
            return _verdict(vitals, is_well=vitals is None or vitals.can_claim)
        if path == "/live":
            return _verdict(vitals, is_well=vitals is None or vitals.is_alive)
        return Page(HTTPStatus.NOT_FOUND, "text/plain", b"try /metrics, /health or /live\n")


def _verdict(vitals: Vitals | None, *, is_well: bool) -> Page:
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    document = {"ok": is_well, "worker": None if vitals is None else str(vitals.health)}
    return Page(status, "application/json", json.dumps(document).encode() + b"\n")


class Window(BaseHTTPRequestHandler):
    """One reader."""

    timeout = SLOWEST

    def do_GET(self) -> None:
        """The page."""
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        """How it would be answered."""
        self._answer(has_body=False)

    def _answer(self, *, has_body: bool) -> None:
        page = cast(Server, self.server).page(urlsplit(self.path).path, self.headers.get("Accept", ""))
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if has_body:
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """To our own log, and only where details are wanted: a probe comes every few seconds."""
        log.debug(format, *args)


@contextmanager
def serve(
    app: App, *, port: int, host: str = "127.0.0.1", worker: Patient | None = None
) -> Generator[Server]:
    """Serve metrics and health while the block lasts; port 0 takes any that is free (`server_port` says)."""
    measures = Measures(app, worker)
    try:
        server = _opened(host, port, measures)
        answer = partial(server.serve_forever, poll_interval=LOOK_UP)
        threading.Thread(target=answer, name="duly-metrics", daemon=True).start()
        try:
            log.info("metrics on http://%s:%d/metrics", host, server.server_port)
            yield server
        finally:
            server.shutdown()
            server.server_close()
    finally:
        measures.close()


def _opened(host: str, port: int, measures: Measures) -> Server:
    try:
        return Server((host, port), measures)
    except (OSError, OverflowError) as error:
        raise DefinitionError(
            f"Metrics cannot be served on {host}:{port}: {error}. Choose a free port; 0 takes any."
        ) from error
