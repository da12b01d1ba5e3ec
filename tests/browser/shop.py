"""A shop with something of everything: work that goes well, work that fails, and work by strangers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.stories.arrange import until, working

from duly import Duly, Retry, Run

TOKEN: Final = "operator-token-for-browsers"
VIEWER: Final = "viewer-token-for-browsers"
HOSTILE: Final = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


class CardDeclined(Exception):
    """The bank said no."""


@dataclass
class Shop:
    """The application, and which of its orders fail."""

    app: Duly
    broken: set[int] = field(default_factory=set[int])
    jobs: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Generator[Shop]:
        """With a worker at work and a history of a few dozen jobs."""
        shop = cls(Duly(f"sqlite:///{path}"))
        tasks = shop.define()
        with working(shop.app):
            shop.fill(tasks)
            yield shop

    def define(self) -> dict[str, Any]:
        app = self.app

        @app.task(name="shop.orders.charge", queue_name="payments", redact=["card"])
        def charge(run: Run, order: int, *, amount: float = 9.5, card: str = "") -> None:
            if order in self.broken:
                raise CardDeclined(f"order {order}: the bank declined {amount:.2f}")

        @app.task(name="shop.mail.receipt", queue_name="mail", retry=Retry(on=TimeoutError, attempts=4))
        def receipt(run: Run, order: int, to: str) -> None:
            if order in self.broken:
                raise TimeoutError("the mail server did not answer within 10 s")

        @app.task(name="shop.stock.sync", queue_name="default")
        def sync(warehouse: str) -> None: ...

        @app.task(name=f"shop.{HOSTILE}")
        def stranger(word: str) -> None:
            raise RuntimeError(f"{HOSTILE} {word}")

        self.stranger, self.charge = stranger, charge

        app.schedule(cron="30 2 * * *", timezone="Europe/Paris", name="nightly report", args=("paris",))(sync)
        app.schedule(every="10m", name="stock levels", args=("main",))(sync)
        app.schedule(cron="0 9-17 * * 1-5", timezone="America/New_York", name="office hours", args=("ny",))(
            sync
        )
        app.schedule(cron="0 */3 * * *", name="clean up", args=("all",))(sync)
        return {"charge": charge, "receipt": receipt, "sync": sync}

    def fill(self, tasks: dict[str, Any]) -> None:
        charge, receipt, sync = (tasks[name] for name in ("charge", "receipt", "sync"))
        self.broken |= {7, 12, 23}
        for order in range(1, 25):
            key = f"order:{order}"
            job = charge.using(key=key).enqueue(order, amount=order * 4.5, card="4111 1111")
            self.jobs[key] = job.id
            receipt.using(key=key).enqueue(order, f"customer{order}@example.org")
        for warehouse in ("main", "north", "south"):
            sync.enqueue(warehouse)
        self.jobs["later"] = receipt.using(key="order:99", run_after="2h").enqueue(99, "later@example.org").id
        for name in ("nightly report", "stock levels"):
            self.app.schedules.trigger(name)
        until(lambda: self.app.jobs.count(state="failed") >= 3)
        until(lambda: self.app.jobs.count(task="shop.orders.charge", state="done") >= 21)
