"""Frames survive any way of cutting the stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.executors.frames import (
    BrokenFrame,
    FrameReader,
    Kind,
    frame,
    pack_errand,
    pack_failure,
    pack_hello,
    unpack_errand,
    unpack_failure,
    unpack_hello,
)

FRAMES = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=40)), max_size=6)


@given(FRAMES, st.integers(1, 12))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    frames: list[tuple[Kind, bytes]], size: int
) -> None:
    stream = b"".join(frame(kind, payload) for kind, payload in frames)
    reader = FrameReader()

    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]

    assert [out for piece in pieces for out in reader.feed(piece)] == frames


@pytest.mark.parametrize("noise", [b"\0\0\0\0\0", b"\x63\0\0\0\1x", b"\1\xff\xff\xff\xff"])
def test_bytes_that_are_no_frame_are_refused(noise: bytes) -> None:
    with pytest.raises(BrokenFrame, match="is no frame"):
        FrameReader().feed(noise)


@given(st.integers(0, 2**64 - 1), st.lists(st.from_regex(r"[\w.]+", fullmatch=True)), st.binary())
def test_an_errand_is_unpacked_as_it_was_packed(number: int, imports: list[str], message: bytes) -> None:
    ((kind, payload),) = FrameReader().feed(pack_errand(number, "package.module:name", imports, message))

    assert kind is Kind.ERRAND
    assert unpack_errand(payload) == (number, "package.module:name", imports, message)


@pytest.mark.parametrize("main_file", [None, "/srv/shop/tasks.py", "/odd/\udcff name"])
def test_a_hello_is_unpacked_as_it_was_packed(main_file: str | None) -> None:
    ((_, payload),) = FrameReader().feed(pack_hello(["/srv/shop", "/odd/\udcff"], main_file))

    assert unpack_hello(payload) == (["/srv/shop", "/odd/\udcff"], main_file)


def test_a_failure_with_unencodable_text_still_arrives() -> None:
    name, text = unpack_failure(pack_failure("builtins.ValueError", "lone \ud800 surrogate"))

    assert name == "builtins.ValueError"
    assert text == "lone \\ud800 surrogate"
