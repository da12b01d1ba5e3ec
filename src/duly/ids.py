"""Names for jobs, claims and workers that never meet twice.

Job ids are UUIDs of version 7: they sort by the time of the request, which keeps the stores' indexes
dense, and within one process each is larger than the one before. Randomness is drawn from the
operating system in batches, because one system call per job would cost more than the rest of it.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from time import time_ns
from typing import Final

from duly.errors import BadRequest

_WORDS: Final = struct.Struct("512Q")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOW_62: Final = (1 << 62) - 1
_TAIL_LIMIT: Final = 1 << 74
_VARIANT: Final = 1 << 63


class _Source:
    """Random words and the last id given out, for one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.words: list[int] = []
        self.millisecond = 0
        self.tail = 0

    def word(self) -> int:
        """64 random bits. The caller holds the lock."""
        if not self.words:
            self.words.extend(_WORDS.unpack(os.urandom(_WORDS.size)))
        return self.words.pop()

    def advance(self) -> None:
        """Move to a later id: a fresh tail in a new millisecond, else a random step up.

        The wall clock may step back; the millisecond then stands still and the tail goes on rising.
        """
        now = time_ns() // 1_000_000
        if now > self.millisecond:
            self.millisecond = now
            self.tail = (self.word() << 9) | (self.word() & 0x1FF)  # the top bit stays free for the steps
            return
        self.tail += (self.word() & 0xFFFFFFFF) + 1
        if self.tail >= _TAIL_LIMIT:
            self.millisecond += 1
            self.tail = self.word()


_source = _Source()


def new_id() -> str:
    """A job's id: 32 lowercase hexadecimal digits, larger than every id this process made before."""
    source = _source
    with source.lock:
        source.advance()
        millisecond, tail = source.millisecond, source.tail
    # The version (7) and the variant (binary 10) split the 74-bit tail into 12 and 62 bits.
    return f"{(millisecond << 80) | (0x7000 | (tail >> 62)) << 64 | 2 << 62 | (tail & _LOW_62):032x}"


def new_ids(count: int) -> list[str]:
    """So many ids, rising: the lock, the clock and the randomness of all of them are asked for once."""
    source = _source
    steps = struct.unpack(f"{count}I", os.urandom(4 * count))
    with source.lock:
        source.advance()
        millisecond, high = source.millisecond, source.tail >> 62
        lows = list(accumulate(map((1).__add__, steps), initial=source.tail & _LOW_62))
        is_within = lows[-1] <= _LOW_62
        if is_within:
            source.tail = high << 62 | lows[-1]
    if not is_within:  # a carry into the bits beside the version, once in a billion batches
        return [new_id() for _ in steps]
    head = f"{millisecond:012x}7{high:03x}"
    tails = struct.pack(f">{count}Q", *map(_VARIANT.__or__, lows[1:])).hex()
    return [head + tails[place : place + 16] for place in range(0, 16 * count, 16)]


def new_nonce() -> str:
    """64 random bits in 16 hexadecimal digits: what tells two claims apart when a store forgot one."""
    source = _source
    with source.lock:
        return f"{source.word():016x}"


def worker_id() -> str:
    """A fresh name for a worker: people read the host and the process, the rest keeps it unique."""
    return f"{socket.gethostname()}-{os.getpid()}-{new_nonce()[:8]}"


def id_time(job_id: str) -> datetime:
    """When the id was made, to the millisecond."""
    if len(job_id) != 32 or job_id[12] != "7":
        raise BadRequest(
            f"{job_id!r} is not a job id: those have 32 hexadecimal digits, as new_id() makes them."
        )
    try:
        return _EPOCH + timedelta(milliseconds=int(job_id[:12], 16))
    except (ValueError, OverflowError):
        raise BadRequest(f"{job_id!r} carries no readable time: it was not made by new_id().") from None


def _start_afresh() -> None:
    """A forked child would repeat its parent's words, and may have inherited a held lock."""
    global _source  # noqa: PLW0603  one per process is the point
    _source = _Source()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


def spread() -> float:
    """A random number from 0 up to 1, for jitter: pure decisions get it from their caller."""
    return int.from_bytes(os.urandom(4)) / 2**32
