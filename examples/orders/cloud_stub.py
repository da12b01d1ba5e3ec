"""A cloud to try the example with: python cloud_stub.py [port]

It knows every lease. What comes after a + in a number goes wrong: `L1+503x2` answers 503 twice and then well,
`L1+401x1` is refused once, `L1+404` is never found.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

FAULT = re.compile(r"\+(\d{3})(?:x(\d+))?$")
ANSWERS = {
    "directory": lambda number: {"path": f"/leases/{number}"},
    "reports": lambda number: {"names": [f"{number}-2024", f"{number}-2025"]},
    "runsheet": lambda number: {"path": f"/leases/{number}/runsheet.pdf"},
}


class Cloud(ThreadingHTTPServer):
    """The server, and what it was asked."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.asked: list[tuple[str, str, str]] = []
        """Number, subject and user of every request."""
        self.gates: dict[str, threading.Event] = {}
        """Numbers whose requests wait until somebody sets the event."""
        self.bodies: dict[str, bytes] = {}
        """Numbers whose answer is something else."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone away meanwhile: a killed worker, a soft limit."""

    def times(self, number: str, subject: str = "directory") -> int:
        """How often a subject was asked for."""
        return sum(asked[:2] == (number, subject) for asked in self.asked)


class Answer(BaseHTTPRequestHandler):
    """One request."""

    server: Cloud

    def do_GET(self) -> None:
        _, _, number, subject = unquote(self.path).split("/")
        self.server.asked.append((number, subject, self.headers.get("X-User", "")))
        gate = self.server.gates.get(number)
        if gate is not None:
            gate.wait(60)
        status = self._status(number, subject)
        body = self.server.bodies.get(number) or json.dumps(ANSWERS[subject](number)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _status(self, number: str, subject: str) -> int:
        fault = FAULT.search(number)
        if fault is None:
            return 200
        is_over = fault[2] is not None and self.server.times(number, subject) > int(fault[2])
        return 200 if is_over else int(fault[1])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Quiet."""


if __name__ == "__main__":
    cloud = Cloud(int(sys.argv[1]) if len(sys.argv) > 1 else 8099)
    print(f"the cloud listens at {cloud.url}")
    cloud.serve_forever()
