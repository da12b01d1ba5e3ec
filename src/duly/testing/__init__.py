"""For tests of code that uses Duly: time that moves only when told to."""

from duly.testing.clock import VirtualClock

__all__ = ["VirtualClock"]
