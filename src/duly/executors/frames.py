"""The words parent and child say to each other over a byte stream.

A frame is one byte of kind, four bytes of length, and the payload. The child imports this file before
anything else, so it needs nothing but `struct`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from os import fsdecode, fsencode
from struct import Struct

HEADER = Struct("!BI")
NUMBER = Struct("!Q")
LARGEST = 2**31  # a longer frame is a broken stream, not a message

MAIN_ALIAS = "__duly_main__"  # the name under which a child loads the parent's script
MAIN_IS_LOADING = "__duly_main_is_loading__"  # set in that module as long as it is being loaded


class Kind(IntEnum):
    """What a frame means: the first two go to the child, four come back, the last two are control."""

    HELLO = 1  # where to import from
    ERRAND = 2  # run this
    STARTED = 3  # imports are done, the body begins: its clocks run from here
    EMIT = 4  # a message of the body while it runs
    RESULT = 5  # the bytes the body returned
    FAILED = 6  # the exception that left the body
    SOFT_LIMIT = 7  # raise SoftLimitExceeded in the body
    STOP = 8  # raise LeaseLost in the body


class BrokenFrame(Exception):
    """Bytes that are no frame: something else wrote to the stream."""


class FrameReader:
    """Cuts a stream into frames, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[tuple[Kind, bytes]]:
        """Take in a chunk and return every frame that is complete now."""
        self._buffer += chunk
        frames: list[tuple[Kind, bytes]] = []
        start = 0
        while (end := self._end_of_frame(start)) is not None:
            frames.append((Kind(self._buffer[start]), bytes(self._buffer[start + HEADER.size : end])))
            start = end
        del self._buffer[:start]
        return frames

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._buffer) - start < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self._buffer, start)
        if not Kind.HELLO <= kind <= Kind.STOP or length > LARGEST:
            raise BrokenFrame(
                f"Kind {kind}, length {length:,} is no frame: who else wrote to this descriptor?"
            )
        end = start + HEADER.size + int(length)
        return end if end <= len(self._buffer) else None


def frame(kind: Kind, *parts: bytes) -> bytes:
    """One frame, ready to be written."""
    length = sum(map(len, parts))
    if length > LARGEST:
        raise ValueError(f"A message has {length:,} bytes, the most is {LARGEST:,}. Pass a path instead.")
    return b"".join((HEADER.pack(kind, length), *parts))


def pack_errand(number: int, entry: str, imports: Sequence[str], message: bytes) -> bytes:
    """The frame that sends a child on its way; one name per line, because no name holds a newline."""
    names = "\n".join((entry, *imports)).encode()
    return frame(Kind.ERRAND, NUMBER.pack(number), NUMBER.pack(len(names)), names, message)


def unpack_errand(payload: bytes) -> tuple[int, str, list[str], bytes]:
    """Number, entry, imports and message of an errand."""
    (number,), (length,) = NUMBER.unpack_from(payload), NUMBER.unpack_from(payload, NUMBER.size)
    start = 2 * NUMBER.size
    entry, *imports = payload[start : start + length].decode().split("\n")
    return number, entry, imports, payload[start + length :]


def pack_hello(search_path: Sequence[str], main_file: str | None) -> bytes:
    """The first frame of a child's life; paths are joined by NUL, the one byte no path can hold."""
    return frame(Kind.HELLO, b"\0".join(map(fsencode, (main_file or "", *search_path))))


def unpack_hello(payload: bytes) -> tuple[list[str], str | None]:
    """Search path and main file."""
    main_file, *search_path = map(fsdecode, payload.split(b"\0"))
    return search_path, main_file or None


def numbered(payload: bytes) -> tuple[int, bytes]:
    """Split the errand's number off the front of a payload."""
    return NUMBER.unpack_from(payload)[0], payload[NUMBER.size :]


def pack_failure(name: str, text: str) -> bytes:
    """The name of an exception's class and its traceback, tolerant of lone surrogates in the text."""
    return "\0".join((name, text)).encode(errors="backslashreplace")


def unpack_failure(payload: bytes) -> tuple[str, str]:
    """Class name and traceback."""
    name, _, text = payload.decode().partition("\0")
    return name, text
