"""What Celery has no place for: windows in which a key is asked for once, and starts that never ended.

A few keys in a Redis, each with an end. Whoever asks is told `StoreUnavailable` when it is away: the caller
of `enqueue` decides whether that matters, as with any store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from importlib import resources
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from duly.errors import MissingExtra, StoreUnavailable
from duly.job import Guard
from duly.urls import masked

P = ParamSpec("P")
T = TypeVar("T")

KEPT: Final = timedelta(days=1)
"""How long arguments and counts outlive the moment they were meant for."""
PATIENCE: Final = 2.0
"""Seconds: a save must not wait for a server that is away."""


def redis_url(broker: str) -> str | None:
    """The URL of a Redis that Celery uses, as Redis's own driver writes it; None for another broker."""
    if broker.startswith("redis+socket://"):
        return broker.replace("redis+socket://", "unix://", 1)
    return broker if broker.startswith(("redis://", "rediss://", "unix://")) else None


class Answer(NamedTuple):
    """What a guard says to a request."""

    decision: str
    id: str
    wait: timedelta


class Guards:
    """The keys of one application."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url = url
        self._prefix = f"{{{namespace}}}:celery"

    @functools.cached_property
    def _client(self) -> Any:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise MissingExtra("duly.integrations.celery", "redis") from None
        driver: Any = redis.Redis
        return driver.from_url(
            self._url,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def ask(self, request_id: str, name: str, guard: Guard, newest: str) -> Answer:
        """Open the window for `name`, or say what is to become of the request inside it."""
        keys = self._window_keys(name)
        words = (
            request_id,
            guard.window // timedelta(milliseconds=1),
            "1" if guard.trailing else "0",
            newest,
            f"{self._prefix}:newest:",
            KEPT // timedelta(milliseconds=1),
        )
        decision, id_, left = self._talk(lambda client: _script(client, "guard")(keys=keys, args=words))
        return Answer(decision, id_, timedelta(milliseconds=left))

    def withdraw(self, request_id: str, name: str) -> None:
        """Nothing was sent: the next request must not be held back."""
        keys = self._window_keys(name)
        self._talk(lambda client: _script(client, "withdraw")(keys=keys, args=[request_id]))

    def newest(self, request_id: str, name: str) -> str | None:
        """What the trailing request `request_id` is to run with."""
        keys = [self._window_keys(name)[1], f"{self._prefix}:newest:{request_id}"]
        found: str | None = self._talk(lambda client: _script(client, "newest")(keys=keys, args=[request_id]))
        return found

    def count_start(self, start: str) -> int:
        """How often this very try has begun; more than once means that it never ended."""

        def count(client: Any) -> int:
            with client.pipeline() as pipe:
                pipe.incr(self._start_key(start))
                pipe.pexpire(self._start_key(start), KEPT)
                return int(pipe.execute()[0])

        return self._talk(count)

    def forget_start(self, start: str) -> None:
        """It ended, one way or another."""
        self._talk(lambda client: client.delete(self._start_key(start)))

    def _start_key(self, start: str) -> str:
        return f"{self._prefix}:starts:{start}"

    def _window_keys(self, name: str) -> list[str]:
        return [f"{self._prefix}:window:{name}", f"{self._prefix}:trailing:{name}"]

    def _talk(self, act: Callable[[Any], T]) -> T:
        from redis import RedisError

        try:
            return act(self._client)
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"The guards at {masked(self._url)} cannot be asked: {error}") from error


def _script(client: Any, name: str) -> Any:
    return client.register_script(_text(name))


@functools.cache
def _text(name: str) -> str:
    return (resources.files(__package__ or "") / f"{name}.lua").read_text(encoding="utf-8")
