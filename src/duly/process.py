"""Which process this is, without asking the system: every run and every request wants to know.

A fork must not act for its parent: what belongs to a process remembers its number and compares.
"""

from __future__ import annotations

import os

number = os.getpid()
"""This process. Read it as `process.number`: a fork has another."""


def _note_fork() -> None:
    global number  # noqa: PLW0603  one per process is the point
    number = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
