"""Foresight: what ends while the store is at work, put together before the store has answered.

Between an answer and the next message the store idles, and five hundred ends took half of that time to put
into words. Touched by the pump's thread alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Final

from duly.stores.contract import Settlement, Store
from duly.worker.bench import Bench
from duly.worker.endings import Concluded, settlements_of
from duly.worker.tempo import LARGEST_BATCH

LOOKS: Final = 4
"""How often to look during one message: each look takes the interpreter from bodies for a moment."""


class Foresight:
    """Ends for the next message."""

    def __init__(self, store: Store, bench: Bench) -> None:
        self._store = store
        self._bench = bench
        self._ended: list[Concluded] = []
        """Collected, and not yet fetched."""
        self._foreseen: list[Concluded] = []
        self._settlements: list[Settlement] = []
        """What the foreseen will be settled with."""

    @property
    def is_empty(self) -> bool:
        """Nothing has been collected that nobody fetched."""
        return not self._ended

    def looks(self) -> Iterator[bool]:
        """One after the other, each a moment later; nothing more comes when there is nothing to be gained."""
        for _ in range(LOOKS):
            yield True
            if not self._look():
                return

    def _look(self) -> bool:
        """Put together what has ended by now; whether it is worth another look."""
        if not self._ended:
            self._foreseen, self._settlements = [], []
        ended = self._bench.collect()
        self._ended += ended
        is_plain = len(self._foreseen) + len(ended) == len(self._ended) and not any(map(_says_more, ended))
        if ended and is_plain:
            self._foreseen = [*self._foreseen, *ended]
            self._settlements = [*self._settlements, *settlements_of(ended)]
            self._store.foresee(self._settlements)
        return is_plain and len(self._ended) < LARGEST_BATCH

    def fetch(self) -> list[Concluded]:
        """What has ended since the last time."""
        ended, self._ended = self._ended, []
        return ended + self._bench.collect()

    def settlements_of(self, ended: Sequence[Concluded | Settlement]) -> list[Settlement]:
        """As far as they were foreseen, they are at hand, and let go of: another time they are made anew."""
        foreseen, settlements = self._foreseen, self._settlements
        self._foreseen, self._settlements = [], []
        if len(foreseen) > len(ended) or not all(map(is_, foreseen, ended)):
            return settlements_of(ended)
        return [*settlements, *settlements_of(ended[len(foreseen) :])]

    def close(self) -> None:
        """Nothing more will be settled: the store need not keep what was foreseen."""
        self._store.foresee(())


def _says_more(ended: Concluded) -> bool:
    """It has settled itself, or nobody knows whether it has."""
    return ended.answer is not None or ended.meant is not None
