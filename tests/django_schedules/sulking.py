"""A backend that refuses now and then, as a broker does that is away."""

from __future__ import annotations

from typing import Any, ClassVar

from duly.django import DummyBackend


class Sulking(DummyBackend):  # type: ignore[misc,unused-ignore]
    """Takes everything, after so many refusals."""

    refusals: ClassVar[int] = 0

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        if Sulking.refusals:
            Sulking.refusals -= 1
            raise ConnectionError("the broker is away")
        return super().enqueue(task, args, kwargs)
