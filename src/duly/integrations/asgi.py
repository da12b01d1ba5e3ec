"""A worker inside a web process: FastAPI, Starlette, and whatever takes a lifespan.

The site comes first. A store that is away must not keep it from starting, and a stop of the server is an
orderly stop of the worker. A worker that dies must not leave a process behind that only looks healthy: the
server is asked to stop, by the signal it stops on anyway, so that its supervisor starts a whole one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

from duly.durations import Duration, duration
from duly.engine import Duly
from duly.errors import DefinitionError
from duly.worker import Worker

try:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse
except ImportError as error:  # pragma: no cover - whoever imports this has FastAPI or Starlette
    raise ImportError("duly.integrations.asgi needs Starlette: pip install fastapi, or starlette") from error

log = logging.getLogger("duly.asgi")

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]
InnerLifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]
OnDeath: TypeAlias = Callable[[BaseException], object]

LOOK: Final = 0.02
"""Seconds between two looks at a worker that has not arrived yet."""


def lifespan(
    app: Duly,
    *,
    inner: InnerLifespan | None = None,
    concurrency: int | None = None,
    queues: Sequence[str] | None = None,
    name: str | None = None,
    grace: Duration | None = None,
    patience: Duration = "5s",
    on_death: OnDeath | None = None,
) -> Lifespan:
    """A lifespan that runs a worker of `app` in this process: `FastAPI(lifespan=lifespan(app))`.

    The server starts when the worker has reached its store, or after `patience` without it. A start that only
    a person can mend (a wrong password) fails. At the server's stop, what runs may finish within `grace`.
    `inner` is a lifespan of your own: it begins before the worker and ends after it. `on_death` replaces
    `stop_server`.
    """
    wait = duration(patience, what="patience").total_seconds()

    @asynccontextmanager
    async def living(site: Any) -> AsyncGenerator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            given = None if inner is None else await stack.enter_async_context(inner(site))
            worker = app.worker(concurrency=concurrency, queues=queues, name=name, grace=grace)
            companion = Companion(worker, on_death or stop_server)
            await stack.enter_async_context(companion.serving(wait))
            yield {**(given or {}), "duly": app, "duly_worker": companion}

    return living


class Health(StrEnum):
    """How a worker in a web process is."""

    OK = "ok"
    ARRIVING = "waiting for the store"
    STOPPING = "stopping"
    ENDED = "ended"
    DEAD = "dead"


class Companion:
    """A worker beside a web site, and what became of it."""

    def __init__(self, worker: Worker, on_death: OnDeath) -> None:
        self.worker = worker
        self.failure: BaseException | None = None
        """What the worker died of."""
        self._on_death = on_death
        self._serving: asyncio.Task[None] | None = None

    @property
    def health(self) -> Health:
        """In one word; everything but OK is a reason to look."""
        if self.failure is not None:
            return Health.DEAD
        if self._serving is None or self._serving.done():
            return Health.ENDED
        if self.worker.is_stopping:
            return Health.STOPPING
        return Health.OK if self.worker.is_healthy else Health.ARRIVING

    @asynccontextmanager
    async def serving(self, patience: float) -> AsyncGenerator[None]:
        """Serve while the block lasts; raises at its start what the worker could not start for."""
        self._serving = serving = asyncio.create_task(self.worker.serve(), name="duly-worker")
        try:
            await self._arrive(serving, patience)
            serving.add_done_callback(self._ended)
            yield
        finally:
            serving.remove_done_callback(self._ended)
            await self._leave(serving)

    async def _arrive(self, serving: asyncio.Task[None], patience: float) -> None:
        deadline = asyncio.get_running_loop().time() + patience
        while not serving.done() and not self.worker.is_healthy:
            if asyncio.get_running_loop().time() >= deadline:
                log.warning("the store has not answered yet: the site starts, the worker goes on trying")
                return
            await asyncio.wait({serving}, timeout=LOOK)
        if serving.done():
            await serving

    def _ended(self, serving: asyncio.Task[None]) -> None:
        """Before anybody asked it to."""
        self.failure = None if serving.cancelled() else serving.exception()
        if self.failure is None:
            log.warning("the worker in this web process has ended; the site goes on without it")
            return
        log.critical("the worker in this web process died: %s", self.failure)
        self._on_death(self.failure)

    async def _leave(self, serving: asyncio.Task[None]) -> None:
        """Drain. What it died of before was told when it happened, and does not spoil the server's end."""
        if not self.worker.is_stopping:  # a second stop would hand back what the first lets finish
            self.worker.stop()
        await asyncio.wait({serving})
        if self.failure is None and not serving.cancelled() and (error := serving.exception()) is not None:
            raise error


def stop_server(_error: BaseException) -> None:
    """Ask the server to stop as if its supervisor had: SIGTERM to this process, if anybody listens to it.

    Without such a listener (a test client) the signal would end the process on the spot, and is not sent.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN, None):
        os.kill(os.getpid(), signal.SIGTERM)


# dependencies and endpoints


def get_duly(connection: HTTPConnection) -> Duly:
    """The application of this site, as a dependency: `Annotated[Duly, Depends(get_duly)]`."""
    return cast(Duly, _stated(connection, "duly"))


def get_worker(connection: HTTPConnection) -> Companion:
    """The worker of this process and its health, as a dependency."""
    return cast(Companion, _stated(connection, "duly_worker"))


async def health(request: Request) -> JSONResponse:
    """An endpoint for probes: 200 while the worker works or waits for its store, 503 once it is gone."""
    now = get_worker(request).health
    return JSONResponse({"worker": now}, status_code=503 if now in (Health.DEAD, Health.ENDED) else 200)


def _stated(connection: HTTPConnection, name: str) -> Any:
    try:
        return getattr(connection.state, name)
    except AttributeError:
        raise DefinitionError(
            f"This site has no {name!r} in its state. Make it with FastAPI(lifespan=lifespan(app)); if the "
            "site is mounted in another, give the lifespan to the outer one."
        ) from None
