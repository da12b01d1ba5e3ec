"""Tasks of Duly on workers of Celery, for teams that cannot switch yet.

    app = OnCelery(celery)          # instead of Duly(…): the tasks stay as they are

Declarations, `enqueue` and `using` are the same; what Celery cannot promise is refused where it is written.
Django's tasks get there by `CeleryBackend`, loaded when it is asked for: others have no Django.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.integrations.celery.app import OnCelery
from duly.integrations.celery.sent import Sent

if TYPE_CHECKING:
    from duly.integrations.celery.backend import CeleryBackend

__all__ = ["CeleryBackend", "OnCelery", "Sent"]


def __getattr__(name: str) -> Any:
    if name != "CeleryBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from duly.integrations.celery.backend import CeleryBackend

    return CeleryBackend
