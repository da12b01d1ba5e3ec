"""Renewing the claims of bodies that take long: one thread per ledger and process, only while needed.

It shares neither the body's loop nor its connection. On SQLite a body that has written holds the file, so a
renewal may find no way in; then nobody else does either, and the claim is not lost.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from duly.errors import StoreBusy, StoreError
from duly.ledger.operations import Operations
from duly.ledger.values import Mark
from duly.stores.drive import Operation

log = logging.getLogger("duly.ledger")

BEATS_PER_LEASE: Final = 3

Run = Callable[[Operation[frozenset[Mark]], timedelta], frozenset[Mark]]


class Beat:
    """The claims in force here, renewed three times per lease."""

    def __init__(self, run: Run, operations: Operations, lease: timedelta) -> None:
        self._run = run
        self._operations = operations
        self._pause = lease / BEATS_PER_LEASE
        self._changing = threading.Lock()
        self._marks: set[Mark] = set()
        self._lost: set[Mark] = set()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def add(self, mark: Mark) -> None:
        """Keep this claim until it is removed."""
        if self._process != os.getpid():  # a fork has no threads, and its parent's claims are not its own
            self._changing, self._marks, self._lost = threading.Lock(), set(), set()
            self._thread, self._process = None, os.getpid()
        with self._changing:
            self._marks.add(mark)
            if self._thread is None:
                thread = threading.Thread(target=self._beat, name="duly-ledger-beat", daemon=True)
                thread.start()  # which fails where there are too many: then the next claim tries again
                self._thread = thread

    def remove(self, mark: Mark) -> None:
        """Its body is over."""
        with self._changing:
            self._marks.discard(mark)
            self._lost.discard(mark)

    def is_lost(self, mark: Mark) -> bool:
        """Whether another claim is known to have taken over."""
        return mark in self._lost

    def _beat(self) -> None:
        while marks := self._next():
            try:
                kept = self._run(self._operations.renew(marks), self._pause)
            except StoreBusy as error:
                log.debug("claims could not be renewed, and nobody else can write either: %s", error)
            except StoreError as error:
                log.warning("claims could not be renewed: %s", error)
            except Exception:  # whatever it is, the claims of later bodies must be renewed too
                log.exception("claims could not be renewed")
            else:
                self._note(set(marks) - kept)

    def _next(self) -> list[Mark]:
        """The claims to renew, after a pause; none when no body is running any more, and the thread ends."""
        time.sleep(self._pause.total_seconds())
        with self._changing:
            if not self._marks:
                self._thread = None
            return sorted(self._marks)

    def _note(self, lost: set[Mark]) -> None:
        with self._changing:
            for mark in lost & self._marks - self._lost:
                self._lost.add(mark)
                log.warning(
                    "receipt %s was claimed by somebody else (epoch %d is over): nothing its body writes in "
                    "its transaction will be kept",
                    mark.id,
                    mark.epoch,
                )
