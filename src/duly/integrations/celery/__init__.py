"""Tasks of Duly on workers of Celery, for teams that cannot switch yet.

    app = OnCelery(celery)          # instead of Duly(…): the tasks stay as they are

Declarations, `enqueue` and `using` are the same; what Celery cannot promise is refused where it is written.
"""

from duly.integrations.celery.app import OnCelery
from duly.integrations.celery.sent import Sent

__all__ = ["OnCelery", "Sent"]
