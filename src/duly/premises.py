"""Where an application keeps its work: a store, perhaps an outbox, each opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from duly.clock import Clock
from duly.errors import StoreUnavailable
from duly.outbox import open_outbox
from duly.outbox.contract import Outbox
from duly.settings import Settings
from duly.stores import open_store
from duly.stores.contract import Store


class Premises:
    """Store and outbox of one application, or what stands in for them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._store: Store | None = None
        self._outbox: Outbox | None = None
        self.stand_in: Store | None = None
        self._refusal: str | None = None
        self._opening = threading.Lock()
        self._opening_outbox = threading.Lock()
        """Not that of the store, which may wait for a server that is away."""

    @property
    def url(self) -> str:
        """Where the store is, or will be."""
        return self._settings.url if self.stand_in is None else self.stand_in.url

    @property
    def store(self) -> Store:
        """The store, opened at first use."""
        if self.stand_in is not None:
            return self.stand_in
        if self._refusal is not None:
            raise StoreUnavailable(self._refusal)
        if self._store is None:
            with self._opening:
                if self._store is None:
                    store = open_store(self._settings, self._clock)
                    store.open()
                    self._store = store
        return self._store

    @property
    def outbox(self) -> Outbox | None:
        """Where requests in a caller's transaction wait for a relay, if there is one."""
        if self.stand_in is not None or self._settings.outbox is None:
            return None
        with self._opening_outbox:
            if self._outbox is None:
                self._outbox = open_outbox(self._settings, self._clock)
            return self._outbox

    def open(self) -> None:
        """Open both now."""
        if (outbox := self.outbox) is not None:
            outbox.open()
        self.store.open()

    def refuse(self, reason: str) -> None:
        """In a process where the store cannot be the real one, say so instead of opening another."""
        self._refusal = reason

    def close(self) -> None:
        """Close both; the next use opens them again."""
        with self._opening:
            if self._store is not None:
                self._store.close()
                self._store = None
        with self._opening_outbox:
            if self._outbox is not None:
                self._outbox.close()
                self._outbox = None

    @contextmanager
    def standing_in(self, store: Store) -> Generator[None, None, None]:
        """Another store while the block lasts."""
        before, self.stand_in = self.stand_in, store
        try:
            yield
        finally:
            self.stand_in = before
