"""How far a long command is, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from duly.cli.progress import SAY, Progress, line_of


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


class Watch:
    """Time that moves when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_has_one_line_redrawn_that_vanishes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen, watch = Terminal(), Watch()
    progress = Progress("carried", 100, stream=screen, monotonic=watch)

    for done in (10, 20, 50):
        watch.now += 0.06
        progress.reach(done)
    progress.close()

    shown = screen.getvalue()
    assert shown.count("\r") == 3  # the second came too soon after the first
    assert "50 of 100" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[K")


def test_elsewhere_a_line_comes_now_and_then_and_none_from_what_was_quick() -> None:
    out, watch = io.StringIO(), Watch()
    progress = Progress("carried", 100, stream=out, monotonic=watch)

    progress.reach(10)
    watch.now += SAY + 1
    progress.reach(40)
    progress.reach(41)
    progress.close()

    assert out.getvalue() == "carried █████████░░░░░░░░░░░░░░░ 40 of 100, 10/s, 6.0s left\n"


def test_a_stream_without_blocks_gets_a_bar_of_signs_it_has() -> None:
    written, watch = io.BytesIO(), Watch()
    progress = Progress("deleted", 4, stream=io.TextIOWrapper(written, encoding="ascii"), monotonic=watch)

    watch.now += SAY
    progress.reach(2)

    assert written.getvalue() == b"deleted ############------------ 2 of 4, 3.0s left\n"


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [
        (1200, None, "looked at 1,200, 600/s"),
        (0, None, "looked at 0"),
        (0, 8, "looked at ░░░░░░░░░░░░░░░░░░░░░░░░ 0 of 8"),
        (9, 8, "looked at ████████████████████████ 8 of 8, 4/s"),
        (0, 0, "looked at 0"),
    ],
)
def test_the_line_says_what_is_known(done: int, total: int | None, line: str) -> None:
    assert line_of("looked at", done, total, 2.0) == line
