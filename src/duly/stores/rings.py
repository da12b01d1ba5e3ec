"""Ringing the doorbell when a caller's transaction has committed, where somebody tells us that it has.

Django and SQLAlchemy do; a bare connection does not, and its jobs are found by polling. However many requests
a transaction makes, it rings once, and not at all when it is rolled back. A ring for nothing does no harm
(a savepoint that was undone), so nothing here is exact beyond that.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from duly.stores.callers import is_djangos, synchronous

log = logging.getLogger("duly")

Ring = Callable[[], None]

PATIENCE: Final = 10.0
"""Seconds given to a commit that was announced; later than that polling has found the job."""

_awaiting: weakref.WeakKeyDictionary[Any, set[Ring]] = weakref.WeakKeyDictionary()
"""Which stores to ring for, by the session or connection of SQLAlchemy that has listeners of ours."""


def ring_after_commit(given: Any, ring: Ring, *, has_committed: bool) -> None:
    """Ring when what was written on this connection is there for others to see: now, or when we are told."""
    outer = synchronous(given)
    if has_committed:
        ring()
    elif is_djangos(outer):
        _ask_django(outer, ring)
    elif hasattr(outer, "get_bind"):
        _ask_session(outer, ring)
    elif hasattr(outer, "get_transaction"):
        _ask_connection(outer, ring)


def _ask_django(connection: Any, ring: Ring) -> None:
    if not connection.in_atomic_block:
        return  # set_autocommit(False): Django refuses to tell
    # Who asked in a savepoint that was undone is no longer on Django's list.
    if all(asked != ring for _, asked, *_ in connection.run_on_commit):
        connection.on_commit(ring, robust=True)


# --- SQLAlchemy -----------------------------------------------------------------------------------
#
# Listeners stay with the object that they were given to, one of each kind, and go with it: SQLAlchemy cannot
# take one away while it is being called.


def _ask_session(session: Any, ring: Ring) -> None:
    bind = session.get_bind()
    if hasattr(bind, "get_transaction"):  # a transaction from outside, which the session does not end
        _ask_connection(bind, ring)
        return
    _listen(session, ring, after_commit=_session_committed, after_transaction_end=_session_ended)


def _ask_connection(connection: Any, ring: Ring) -> None:
    _listen(connection, ring, commit=_connection_commits, rollback=_forget)


def _listen(target: Any, ring: Ring, **listeners: Callable[..., None]) -> None:
    from sqlalchemy import event

    if target not in _awaiting:
        _awaiting[target] = set()
        for name, listener in listeners.items():
            event.listen(target, name, listener)
    _awaiting[target].add(ring)


def _session_committed(session: Any) -> None:
    if not session.in_nested_transaction():  # the end of a savepoint is announced in the same way
        for ring in _taken(session):
            ring()


def _session_ended(session: Any, transaction: Any) -> None:
    if transaction.parent is None:
        _forget(session)


def _connection_commits(connection: Any) -> None:
    """SQLAlchemy says so before it does so: a thread looks on until it is done, then rings."""
    rings = _taken(connection)
    if not rings:
        return
    watch = threading.Thread(
        target=_ring_when_over, args=(connection.get_transaction(), rings), name="duly-commit", daemon=True
    )
    try:
        watch.start()
    except RuntimeError as error:  # no more threads: that must not keep anybody from committing
        log.debug("a ring was lost: %s", error)


def _ring_when_over(transaction: Any, rings: set[Ring]) -> None:
    until, pause = time.monotonic() + PATIENCE, 0.0005
    while transaction is not None and transaction.is_active and time.monotonic() < until:
        time.sleep(pause)
        pause = min(0.05, pause * 2)
    for ring in rings:
        ring()


def _taken(target: Any) -> set[Ring]:
    rings, _awaiting[target] = _awaiting[target], set()
    return rings


def _forget(target: Any) -> None:
    _awaiting[target] = set()
