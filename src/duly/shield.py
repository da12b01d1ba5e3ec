"""A moment in which no interrupt strikes: a lock half taken or a connection half opened is nobody's.

A body in a thread or in a child process can be interrupted anywhere, also deep inside the engine that it
calls. Whoever runs bodies says here, for their thread, how to keep that out for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Given = TypeVarTuple("Given")

_here = threading.local()


def shielded(act: Callable[[*Given], T], *given: *Given) -> T:
    """Do this. An interrupt that comes meanwhile is raised afterwards, and then the value is lost."""
    shield: Callable[[Callable[[], T]], T] | None = getattr(_here, "shield", None)
    return act(*given) if shield is None else shield(partial(act, *given))


def shield_by(shield: Callable[[Callable[[], Any]], Any]) -> None:
    """How to keep interrupts out of this thread from now on."""
    _here.shield = shield
