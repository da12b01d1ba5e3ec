"""One tick of a guarded and of a plain task on each backend, delivered by that backend's own worker."""

from __future__ import annotations

import importlib
import json
from typing import Any

management: Any = importlib.import_module("django.core.management")
importlib.import_module("django").setup()
management.call_command("migrate", verbosity=0)

from tests.django_schedules.clockwork import Clockwork  # noqa: E402
from tests.django_schedules.programs import backends  # noqa: E402

from duly.django.models import TaskExecution  # noqa: E402

NAMES = ("default", "database", "stock", "immediate")

clockwork = Clockwork()
for name in NAMES:
    clockwork.schedule(backends.bill, name=f"bill {name}", backend=name)
    clockwork.schedule(backends.note, name=f"note {name}", backend=name, args=[f"noted {name}"])
clockwork.tick()
clockwork.tick(minutes=1)
handed_over = [row.hand_overs for row in TaskExecution.objects.all()]
management.call_command("duly_worker", burst=True, verbosity=0)
management.call_command("db_worker", "--backend", "database", "--batch", "--no-startup-delay", "-v", "0")
rows = [[row.id.partition("@")[0], row.status] for row in TaskExecution.objects.order_by("id")]
marks = [text.partition("@")[0] for text in backends.texts()]
print(json.dumps({"handed_over": handed_over, "marks": marks, "rows": rows}))
clockwork.close()
