"""One process's way to the store: requests take time or get lost, or are carried out and not answered.

The store itself is the memory store, the executable specification. Every operation passes the witness at the
moment it takes effect, so what the witness sees is the one true order of things.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tests.simulation.stage import Process, Stage
from tests.simulation.weather import Fate, Weather

from duly.errors import StoreUnavailable
from duly.stores.contract import Doorbell
from duly.stores.drive import Operation
from duly.stores.memory import MemoryStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """An operation and what it was made from, for the witness to read."""

    operation: Operation[Any]
    name: str
    args: tuple[Any, ...]
    meanwhile: Callable[[], None] | None = None


class Witness(Protocol):
    """Sees every operation as it takes effect."""

    def saw(self, process: Process, call: Call, value: Any) -> None: ...


class Link:
    """A store, seen from one process through the weather."""

    url = "memory://simulated"

    def __init__(
        self, stage: Stage, process: Process, store: MemoryStore, weather: Weather, witness: Witness
    ) -> None:
        self._stage = stage
        self._process = process
        self._store = store
        self._weather = weather
        self._witness = witness

    def __getattr__(self, name: str) -> Any:
        make = getattr(self._store, name)

        def call(*args: Any, **words: Any) -> Call:
            return Call(make(*args, **words), name, (*args, *words.values()))

        return call

    def run(self, call: Call) -> Any:
        """There and back."""
        fate = self._weather.fate(self._process, self._stage.now)
        if call.meanwhile is not None:
            call.meanwhile()
        self._stage.pause(self._weather.latency())
        if fate is Fate.REQUEST_LOST:
            self._stage.pause(self._weather.patience())
            raise StoreUnavailable(f"{call.name} did not reach the store")
        value = self._store.run(call.operation)
        self._witness.saw(self._process, call, value)
        self._stage.pause(self._weather.latency())
        if fate is Fate.ANSWER_LOST:
            self._stage.pause(self._weather.patience())
            raise StoreUnavailable(f"{call.name} was not answered")
        return value

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def check_schema(self) -> None:
        """Nobody migrates here."""

    def ring(self) -> None:
        """A bell may be missed; polling is the truth."""
        if self._weather.fate(self._process, self._stage.now) is Fate.FINE:
            self._store.ring()

    def doorbell(self) -> Doorbell:
        return self._store.doorbell()
