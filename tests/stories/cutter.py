"""A wire that is cut at a given word, to see what becomes of what was said on it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

from tests.servers import postgres_url

COMMIT: Final = b"commit\x00"
"""By itself, or as the last word of a longer message."""
GREETING: Final = b"prepare duly_end"
"""Said once on each connection that is opened for bodies."""
CHUNK: Final = 65536


class Cutter:
    """Stands between us and the server, and cuts one connection of a body where something is said on it.

    Or garbles the word, so that the server is there but has none of it.
    """

    def __init__(self, at: bytes, when: Literal["before", "after", "garbled"]) -> None:
        self.when = when
        self._at = at
        self._server = f"{parse_qs(urlsplit(postgres_url()).query)['host'][0]}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}/postgres"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                is_cut = threading.Event()
                threading.Thread(target=self._forward, args=(client, server, is_cut), daemon=True).start()
                threading.Thread(target=_pass_on, args=(server, client, is_cut), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        is_a_bodys = False
        with suppress(OSError):
            while said := client.recv(CHUNK):
                is_a_bodys = is_a_bodys or GREETING in said
                if is_a_bodys and self._at in said and not self.cuts:
                    self.cuts += 1
                    said = self._spoilt(said, is_cut)
                server.sendall(said)
                if is_cut.is_set():
                    break
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _spoilt(self, said: bytes, is_cut: threading.Event) -> bytes:
        if self.when == "garbled":
            return said.replace(self._at, self._at.replace(b"_", b"+"))
        is_cut.set()
        return b"" if self.when == "before" else said


def _pass_on(server: socket.socket, client: socket.socket, is_cut: threading.Event) -> None:
    """What the server says reaches the client, unless it was cut off: then it only learns that it was."""
    with suppress(OSError), server, client:
        while answer := server.recv(CHUNK):
            if not is_cut.is_set():
                client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)
