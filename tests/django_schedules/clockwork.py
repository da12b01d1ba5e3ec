"""A scheduler that a test winds up: its clock goes as far as it is told, and ticks that are due are put."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.django.project.shop.models import Mark

from duly import Duly
from duly.clock import SystemClock
from duly.django import executions, scheduling
from duly.django.place import database_url
from duly.django.transactions import Atomic
from duly.ids import new_nonce
from duly.ledger import ReceiptState

NOON = datetime(2026, 11, 16, 12, 0, 30, tzinfo=UTC)


class WoundClock:
    """Stands still unless it is moved."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def boot(self) -> float:
        return SystemClock().boot()

    def advance(self, by: timedelta) -> None:
        self._now += by


class Clockwork:
    """An engine in the default database, under a namespace of its own."""

    def __init__(self) -> None:
        self.clock = WoundClock(NOON)
        self.namespace = f"t{new_nonce()[:8]}"
        self._apps: list[Duly] = []
        self.app = self.restarted()

    def restarted(self) -> Duly:
        """The same store, as a new process would see it."""
        self.app = Duly(
            database_url("default"),
            clock=self.clock,
            namespace=self.namespace,
            transactions=Atomic("default"),
            poll="20ms",
        )
        self._apps.append(self.app)
        return self.app

    def schedule(self, task: Any, cron: str = "* * * * *", **words: Any) -> None:
        """As the decorator does it in code, on the dummy backend unless another is named."""
        given: dict[str, Any] = {"backend": "dummy", **words}
        scheduling.scheduled_task(cron=cron, **given)(task)

    def tick(self, **advance: float) -> None:
        """Move the clock, and do what a scheduler would do until nothing is due."""
        if advance:
            self.clock.advance(timedelta(**advance))
        scheduling.furnish(self.app)
        self.app.run(queues=[scheduling.QUEUE], burst=True)

    def clear_executions(self) -> None:
        """Begin with none."""
        for alias in ("default", "other"):
            made = executions.ledger(alias)
            made.open()
            from tests.django_schedules.databases import connections

            with connections[alias].cursor() as cursor:
                cursor.execute("delete from duly_ledger_receipt")
                cursor.execute("delete from duly_ledger_delivery")

    def close(self) -> None:
        for app in self._apps:
            app.close()


def give_up() -> None:
    """Sweep until what nobody completes was handed over as often as allowed."""
    until = time.monotonic() + 60
    while not executions.ledger().count()[ReceiptState.EXHAUSTED]:
        assert time.monotonic() < until
        executions.ledger().sweep()


def marks(alias: str = "default") -> list[str]:
    """The effects there are."""
    return sorted(Mark.objects.using(alias).values_list("text", flat=True))
