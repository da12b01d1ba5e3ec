"""The metrics of an application as a part of a web site: any server for ASGI, no framework needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from duly.app import App
from duly.metrics.prometheus import Exposed
from duly.metrics.readings import Measures, Patient

Message: TypeAlias = MutableMapping[str, Any]
Site: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


def asgi(app: App, *, worker: Patient | None = None) -> Site:
    """A site with one page, to be mounted: `site.mount("/metrics", duly.metrics.asgi(app))`.

    It has no login of its own: mount it where only your Prometheus comes. What the application registered
    itself is left out, since such a site usually exposes it already.
    """
    exposed = Exposed(Measures(app, worker), with_others=False)

    async def site(
        scope: Message,
        _receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the metrics of Duly are read by HTTP, not by {scope['type']}")
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        found = await asyncio.to_thread(exposed.expose, accept)
        headers = [(b"content-type", found.content_type.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else found.body
        await send({"type": "http.response.body", "body": body})

    return site
