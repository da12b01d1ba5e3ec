"""A shop: an application with one task, and a look at what a worker would find."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any, Final

from tests.stories.arrange import until

from duly import Duly
from duly.stores.contract import Ask, Lane

TASK: Final = "send_receipt"
LEASE: Final = timedelta(seconds=30)


class Shop:
    """Orders in a table of the user's, receipts as jobs."""

    def __init__(self, url: str, users_url: str, namespace: str) -> None:
        self.url = url
        self.users_url = users_url
        self.namespace = namespace
        self.ran = threading.Event()
        self.app = self.branch()
        self.app.open()
        self._branches = [self.app]

    def branch(self, **options: Any) -> Duly:
        """Another application on the same store, as another process would have."""
        app = Duly(self.url, namespace=self.namespace, **options)

        @app.task(name=TASK)
        def send_receipt(*order: object, words: object = "") -> None:
            self.ran.set()

        return app

    def open_branch(self, **options: Any) -> Duly:
        """One that is closed with the shop."""
        self._branches.append(self.branch(**options))
        return self._branches[-1]

    @property
    def send_receipt(self) -> Any:
        return self.app.tasks[TASK]

    def ask(self, connection: Any, order: int, key: str | None = None, **wishes: Any) -> Any:
        return self.send_receipt.using(connection=connection, key=key, **wishes).enqueue(order)

    async def aask(self, connection: Any, order: int, key: str | None = None, **wishes: Any) -> Any:
        return await self.send_receipt.using(connection=connection, key=key, **wishes).aenqueue(order)

    def receipts(self) -> list[int]:
        """The orders for which a worker has found a job by now; a worker looks first."""
        store = self.app.store
        store.run(store.claim(Ask("w", {TASK: Lane(TASK)}, LEASE, limit=100, free=100)))
        return self._listed()

    def receipts_meanwhile(self) -> list[int]:
        """The same while a user's transaction is open, which on SQLite holds the file's one write lock."""
        return self._listed() if self.url.startswith("sqlite") else self.receipts()

    def _listed(self) -> list[int]:
        return sorted(json.loads(job.arguments)[0][0] for job in self.app.jobs.list(task=TASK))

    def close(self) -> None:
        for app in self._branches:
            app.close()


class Counted:
    """How often a store was rung."""

    def __init__(self, shop: Shop) -> None:
        self.count = 0
        driver: Any = shop.app.store
        driver = getattr(driver, "driver", driver)
        self._ring = driver.ring
        driver.ring = self._counting

    def _counting(self) -> None:
        self.count += 1
        self._ring()

    def settled(self) -> int:
        """The count when nobody looks on at a commit any more."""
        until(lambda: not any(thread.name == "duly-commit" for thread in threading.enumerate()))
        return self.count
