"""Whether to try the swift way of an operation, or to take the ordinary one at once.

A swift way is for when nothing is out of the ordinary. Where something is, it was taken in vain and the
ordinary one follows. Mostly the next operation meets the same: to try each time costs more than it saves.
"""

from __future__ import annotations


class Haste:
    """Advisable, but after a try in vain not for a while, and longer each time.

    The pause is `first` operations, then twice as many, up to `longest`. Where the two are equal it never
    changes, and a try that was of use need not be told.
    """

    def __init__(self, *, first: int, longest: int) -> None:
        self._first = first
        self._longest = longest
        self._next = first
        self._left = 0

    def is_advisable(self) -> bool:
        """Asked once before each operation, which it counts."""
        self._left -= 1
        return self._left < 0

    def was_in_vain(self) -> None:
        """The pause begins."""
        self._left = self._next
        self._next = min(self._longest, 2 * self._next)

    def was_of_use(self) -> None:
        """The next pause is a first one."""
        self._next = self._first
