"""`DulyBackend`: Django Tasks kept in Duly."""

from __future__ import annotations

from typing import Any

from duly.django.compat import BaseTaskBackend


class DulyBackend(BaseTaskBackend):  # type: ignore[misc]
    """Stores each request as a job; `manage.py duly_worker` runs them."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError
