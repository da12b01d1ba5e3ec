"""An exception as text that every store takes."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

TRACEBACK_LIMIT: Final = 16_000
ENGINE: Final = str(Path(__file__).parent)


def clean(text: str) -> str:
    """Text every store takes: lone surrogates and NUL are written out."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def describe(error: BaseException) -> str:
    """Traceback and message as text, from the body on, also for exceptions whose own text is broken."""
    try:
        text = "".join(
            traceback.format_exception(type(error), error, _from_body(error.__traceback__))
        ).rstrip()
    except Exception:
        text = f"{type(error).__module__}.{type(error).__qualname__} (its text cannot be shown)"
    text = clean(text)
    return text if len(text) <= TRACEBACK_LIMIT else "… " + text[-TRACEBACK_LIMIT:]


def _from_body(trace: TracebackType | None) -> TracebackType | None:
    """Without the engine's own frames at the top; all of them when there is nothing else."""
    part = trace
    while part is not None and part.tb_frame.f_code.co_filename.startswith(ENGINE):
        part = part.tb_next
    return part or trace
