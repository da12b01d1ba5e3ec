"""Running scripts on a server: connections, the script cache, the clock, the doorbell.

The operations know nothing of this, and this knows nothing of jobs.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from duly.clock import Clock, SystemClock
from duly.errors import DefinitionError, MissingExtra, WrongConnection
from duly.job import Delivery
from duly.shield import shielded
from duly.stores.contract import Doorbell
from duly.stores.drive import Operation, Statement, Verbatim

try:
    import redis
    from redis import exceptions
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as missing:
    raise MissingExtra("The Redis store", "redis") from missing

from duly.stores.redis import server
from duly.stores.redis.address import parse
from duly.stores.redis.doorbell import Line
from duly.stores.redis.faults import code_of, explained
from duly.stores.redis.moment import stamp
from duly.stores.redis.moving import refusal
from duly.stores.redis.packing import packed
from duly.stores.redis.scripts import script
from duly.stores.redis.wires import Spoken, Wires, spoken

T = TypeVar("T")

CONNECTIONS: Final = 16
"""At most this many per process, and one more that listens. The server runs one script at a time anyway."""
CONNECT_WITHIN: Final = 3.0
JUST_NOW: Final = 0.05
RINGING: Final = frozenset({"put", "deliver", "settle", "turn", "amend", "disown", "free"})
"""Operations whose scripts ring by themselves if there is a reason to."""

_read: Final = json.JSONDecoder().decode
_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


class Driver:
    """One namespace on one server."""

    def __init__(self, url: str, *, clock: Clock | None = None, namespace: str = "duly") -> None:
        self.url = url
        self._address = parse(url)
        self._prefix = f"{{{_checked(namespace)}}}:"
        self._clock = None if clock is None or isinstance(clock, SystemClock) else clock
        self._untimed = spoken([1, self._prefix, "", ""])
        self._opening = threading.Lock()
        self._facts: server.Facts | None = None
        self._line: Line | None = None
        self._line_pid = 0
        self._threads: ThreadPoolExecutor | None = None
        self._here = threading.local()
        self._client = self._connect()
        self._wires = self._wired()
        _drivers.add(self)

    # Opening and closing.

    def open(self) -> None:
        """Look at the server and lay down the layout. The first operation does it too."""
        self._ready()

    def close(self) -> None:
        """Let go of every connection; a later operation opens new ones."""
        with self._opening:
            line, self._line = self._line, None
            threads, self._threads = self._threads, None
            self._facts = None
        if line is not None and self._line_pid == os.getpid():
            line.close(self._publish)
        if threads is not None:
            threads.shutdown(wait=False)
        with suppress(redis.RedisError, OSError):
            self._client.connection_pool.disconnect()

    def forget(self) -> None:
        """In a forked child: leave the parent's connections and threads alone."""
        self._opening = threading.Lock()
        self._line = self._threads = None
        self._here = threading.local()
        self._client = self._connect()
        self._wires = self._wired()

    def _ready(self) -> server.Facts:
        facts = self._facts
        if facts is not None:
            return facts
        with self._opening:
            if self._facts is None:
                self._facts = self._opened()
            return self._facts

    def _opened(self) -> server.Facts:
        try:
            facts = server.look(self._client, self._address)
            server.check(facts, self._address)
            [[layout, serves]] = self._call(Statement("open", {"layout": server.LAYOUT}))
        except (redis.RedisError, OSError) as error:
            raise self._explained(error, "open") from error
        server.check_layout(layout, serves, self._address)
        server.warn(facts, self._address)
        return facts

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` when the keys were laid out for newer code since we opened them."""
        try:
            found = self._wires.ask("HMGET", f"{self._prefix}meta", "layout", "serves")
        except (redis.RedisError, OSError) as error:
            raise self._explained(error, "read the layout") from error
        if None not in found:
            server.check_layout(int(found[0]), int(found[1]), self._address)

    def check_delivery(self, delivery: Delivery) -> None:
        """Raise `DefinitionError` for a promise that this server's settings cannot keep."""
        server.check_delivery(delivery, self._ready(), self._address)

    def describe(self) -> dict[str, str]:
        """What a person should know about this server."""
        facts = self._ready()
        return {
            "server": self._address.shown,
            "version": facts.version,
            "namespace": self._prefix[1:-2],
            "maxmemory-policy": facts.policy or "hidden",
            "appendfsync": facts.appendfsync or "hidden",
            "connections": f"at most {CONNECTIONS}, and one for the doorbell",
            "layout": str(server.LAYOUT),
        }

    # Running.

    def run(self, operation: Operation[T]) -> T:
        """Perform; each statement of the operation is one script, and atomic."""
        return shielded(self._talk, operation)  # a body may be struck in here

    def _talk(self, operation: Operation[T]) -> T:
        self._ready()
        try:
            answer = self._perform(operation)
        except (redis.RedisError, OSError) as error:
            raise self._explained(error, operation.name) from error
        self._note(operation)
        return answer

    async def arun(self, operation: Operation[T]) -> T:
        """The same without holding up the event loop.

        In threads: an asyncio connection belongs to one loop and would outlive it, and the server
        takes one script at a time, so that more in flight would gain nothing.
        """
        threads = self._threads
        if threads is None:
            with self._opening:
                threads = self._threads = self._threads or ThreadPoolExecutor(
                    CONNECTIONS, thread_name_prefix="duly-redis"
                )
        answer = await asyncio.get_running_loop().run_in_executor(threads, self.run, operation)
        self._note(operation)
        return answer

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """Refused: a job in Redis cannot be part of a transaction elsewhere."""
        self._refuse(connection)

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        """Refused, for the same reason."""
        self._refuse(connection)

    def _refuse(self, connection: Any) -> NoReturn:
        raise WrongConnection(
            f"using(connection={type(connection).__name__}) cannot reach Redis at {self._address.shown}: "
            "a job there is not part of your transaction. Give the engine an outbox in your database, "
            f'Duly("{self._address.shown}", outbox="postgresql://…"), or leave connection= out.'
        )

    def _perform(self, operation: Operation[T]) -> T:
        steps = operation.steps()
        try:
            statement = next(steps)
            while True:
                statement = steps.send(self._call(statement, operation.meanwhile))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _call(self, statement: Statement, meanwhile: Callable[[], object] | None = None) -> Any:
        wanted = script(statement.text)
        given = statement.parameters
        if not isinstance(given, (Spoken, bytes)):
            given = packed(given)
        values = (self._place(), given)
        try:
            reply = self._wires.ask(wanted.by_name, *values, meanwhile=meanwhile)
        except exceptions.NoScriptError:  # a restart or SCRIPT FLUSH: the text teaches it again
            reply = self._wires.ask("EVAL", wanted.text, *values)
        if not isinstance(reply, bytes):
            return reply
        return reply.decode() if isinstance(statement, Verbatim) else _read(reply.decode())

    def _place(self) -> Spoken:
        """Which keys, and no time: the server's clock is read inside the script. A test brings its own."""
        if self._clock is None:
            return self._untimed
        return spoken([1, self._prefix, stamp(self._clock.now()), round(self._clock.boot() * 1_000_000)])

    def _explained(self, error: Exception, doing: str) -> Exception:
        if code_of(error) in ("READONLY", "MASTERDOWN", "MOVED"):
            # After a failover the name may lead elsewhere: ask for it again.
            with suppress(redis.RedisError, OSError):
                self._client.connection_pool.disconnect()
        return refusal(str(error), doing) or explained(error, self._address.shown, doing)

    # The doorbell.

    def ring(self) -> None:
        """Wake the listeners of all processes, unless this thread's last operation has just done so."""
        if time.monotonic() - getattr(self._here, "rung_at", -JUST_NOW) >= JUST_NOW:
            self._publish()
        self._here.rung_at = -JUST_NOW

    def doorbell(self) -> Doorbell:
        """A listener of its own for whoever asks."""
        with self._opening:
            if self._line is None or self._line_pid != os.getpid():
                client = self._connect()
                self._line, self._line_pid = Line(client, f"{self._prefix}bell"), os.getpid()
            line = self._line
        return line.bell()

    def _note(self, operation: Operation[Any]) -> None:
        if operation.name in RINGING:
            self._here.rung_at = time.monotonic()

    def _publish(self) -> None:
        """Never raises: whatever the ring is about has happened, and polling finds it."""
        with suppress(redis.RedisError, OSError):
            self._wires.ask("PUBLISH", f"{self._prefix}bell", "1")

    def _wired(self) -> Wires:
        """For everything but the look around at the opening, which takes the client's one connection."""
        patience = self._address.timeout.total_seconds()
        return Wires(self._client.connection_pool, CONNECTIONS - 1, patience)

    def _connect(self) -> Any:
        """No retries: a claim sent twice would leave jobs with a worker that knows nothing of them."""
        options: dict[str, Any] = {"health_check_interval": 0}
        if not self._address.driver_url.startswith("unix:"):
            options["socket_connect_timeout"] = min(CONNECT_WITHIN, self._address.timeout.total_seconds())
        try:
            made: Any = redis.BlockingConnectionPool  # without types of its own
            pool = made.from_url(
                self._address.driver_url,
                max_connections=1,
                timeout=self._address.timeout.total_seconds(),
                socket_timeout=self._address.timeout.total_seconds(),
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                **options,
            )
        except (ValueError, TypeError) as error:
            raise DefinitionError(f"{self._address.shown} cannot be understood: {error}.") from error
        return redis.Redis(connection_pool=pool)


def _checked(namespace: str) -> str:
    if not namespace or not namespace.isascii() or not namespace.replace("_", "").isalnum():
        raise DefinitionError(f"namespace is {namespace!r}; use letters, digits and underscores.")
    return namespace


def _forget_parents() -> None:
    for driver in list(_drivers):
        driver.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
