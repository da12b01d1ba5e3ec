"""A small TCP proxy in front of a server's socket, which delays, stalls, cuts and half-closes connections.

It lives in a thread of the runner, with a loop of its own; the nemesis turns its knobs.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

CHUNK = 65536


class Link:
    """One connection through the proxy, both halves of it."""

    def __init__(self, road: int, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.road = road
        self.client = client
        self.server = server
        self.drops_answers = False

    def cut(self) -> None:
        """Reset both sides at once, as a machine that vanished would."""
        for writer in (self.client, self.server):
            _reset(writer)

    def half_close(self) -> None:
        """The client is told that nothing more comes; what it says still goes through."""
        with suppress(OSError, RuntimeError):
            self.client.write_eof()


class Proxy:
    """Listens on ports of the loopback interface, a road for each client, which all lead to one socket."""

    def __init__(self, target: Path, roads: int) -> None:
        self._target = target
        self.ports: list[int] = []
        self._servers: list[asyncio.Server] = []
        self._links: set[Link] = set()
        self._loop = asyncio.new_event_loop()
        self._delay = 0.0
        self._refuses = False
        self._open_roads = [asyncio.Event() for _ in range(roads)]
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="chaos-proxy", daemon=True)

    def start(self) -> Proxy:
        self._thread.start()
        self._is_up.wait(10)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    # the knobs, for the runner's thread

    def delay(self, seconds: float) -> None:
        """Every chunk takes this much longer, in both directions."""
        self._delay = seconds

    def stall(self, *, on: bool, road: int | None = None) -> None:
        """Nothing moves, nothing ends: packets are dropped on the way. On all roads, or on one."""
        for open_road in self._open_roads if road is None else [self._open_roads[road]]:
            self._loop.call_soon_threadsafe(open_road.clear if on else open_road.set)

    def refuse(self, *, on: bool) -> None:
        """New connections are reset."""
        self._refuses = on

    def cut(self, share: float) -> None:
        """Reset a share of the connections."""
        self._loop.call_soon_threadsafe(self._each, Link.cut, share)

    def half_close(self, share: float) -> None:
        self._loop.call_soon_threadsafe(self._each, Link.half_close, share)

    def lose_answers(self, share: float) -> None:
        """What is asked arrives, what is answered does not, and then the connection is gone."""
        self._loop.call_soon_threadsafe(self._lose_answers, share)

    def _lose_answers(self, share: float) -> None:
        for link in self._part(share):
            link.drops_answers = True
            self._loop.call_later(0.3, link.cut)

    def _each(self, act: Callable[[Link], None], share: float) -> None:
        for link in self._part(share):
            act(link)

    def _part(self, share: float) -> list[Link]:
        links = list(self._links)
        return links[: max(1, round(len(links) * share))]

    # the road

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._is_up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self) -> None:
        for road, open_road in enumerate(self._open_roads):
            open_road.set()
            server = await asyncio.start_server(partial(self._join, road), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def _join(self, road: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            _reset(writer)
            return
        link = Link(road, writer, far_writer)
        self._links.add(link)
        try:
            await asyncio.gather(
                self._carry(reader, far_writer, link, is_answer=False),
                self._carry(far_reader, writer, link, is_answer=True),
            )
        finally:
            self._links.discard(link)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, link: Link, *, is_answer: bool
    ) -> None:
        try:
            while chunk := await source.read(CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._open_roads[link.road].wait()
                if not (is_answer and link.drops_answers):
                    sink.write(chunk)
                    await sink.drain()
            sink.close()
        except (OSError, RuntimeError):
            link.cut()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close without the usual farewell, so that the other side sees a reset."""
    transport = writer.transport
    held: socket.socket | None = transport.get_extra_info("socket")
    if held is not None and held.family == socket.AF_INET:
        with suppress(OSError):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
