"""A wire between a client and a server that a test can cut, stall, or cut at a chosen word."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Proxy:
    """Listens on a unix socket of its own and forwards to the server's."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self._server = str(server / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._cut_after: bytes | None = None
        self._is_cutting = False
        self._is_stalled = threading.Event()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, word: bytes) -> None:
        """The next message of a client with this word reaches the server; its answer reaches nobody."""
        self._cut_after = word

    def stall(self) -> None:
        """From now on nothing comes back, not even that the server has hung up."""
        self._is_stalled.set()

    def cut(self) -> None:
        """End every connection there is."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._pairs.append((client, server))
                for source, target, is_client in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._forward,
                        args=(source, target),
                        kwargs={"is_client": is_client},
                        daemon=True,
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, *, is_client: bool) -> None:
        with contextlib.suppress(OSError):
            while message := source.recv(65536):
                if is_client and self._cut_after is not None and self._cut_after in message:
                    self._cut_after, self._is_cutting = None, True
                elif not is_client and self._is_cutting:
                    self._is_cutting = False
                    self.cuts += 1
                    self.cut()
                elif not is_client and self._is_stalled.is_set():
                    continue
                target.sendall(message)
        if is_client or not self._is_stalled.is_set():
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
        source.close()
