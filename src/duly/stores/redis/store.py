"""The Redis store: the operations, and a driver for one server."""

from __future__ import annotations

from duly.clock import Clock
from duly.stores.redis.driver import Driver
from duly.stores.redis.moving import Movable


class RedisStore(Driver, Movable):
    """Jobs in Redis or Valkey, under one namespace."""

    def __init__(
        self, url: str = "redis://localhost:6379/0", *, clock: Clock | None = None, namespace: str = "duly"
    ) -> None:
        """With a clock other than the system's, the scripts take the time from it: for tests."""
        Movable.__init__(self)
        Driver.__init__(self, url, clock=clock, namespace=namespace)
