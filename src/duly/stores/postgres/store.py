"""The PostgreSQL store: its operations, and the driver that performs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from duly.clock import Clock, SystemClock
from duly.stores.contract import Doorbell
from duly.stores.drive import Operation
from duly.stores.postgres.address import PATIENCE
from duly.stores.postgres.driver import Driver
from duly.stores.postgres.reactive import Following

T = TypeVar("T")


class PostgresStore(Following):
    """Jobs in a schema of a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        namespace: str = "duly",
        patience: timedelta = PATIENCE,
    ) -> None:
        # The server's clock is the only one that all workers share; a test's clock takes its place.
        super().__init__(None if isinstance(clock, SystemClock) else clock)
        self.url = url
        self.driver = Driver(url, namespace=namespace, operations=self, patience=patience)
        self.level = self.driver.level

    def _spelled(self, text: str) -> str:
        return self.driver.spell(text).decode().replace("%%", "%")

    def run(self, operation: Operation[T]) -> T:
        return self.driver.run(operation)

    async def arun(self, operation: Operation[T]) -> T:
        return await self.driver.arun(operation)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        return self.driver.run_on(connection, operation)

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        return await self.driver.arun_on(connection, operation)

    def open(self) -> None:
        self.driver.open()

    def close(self) -> None:
        self.driver.close()

    def ring(self) -> None:
        self.driver.ring()

    def doorbell(self) -> Doorbell:
        return self.driver.doorbell()

    def pending(self) -> list[str]:
        """The migrations this code ships and the schema has not seen."""
        return self.driver.pending()

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` when the schema no longer serves this code."""
        self.driver.check_schema()

    def migrate(self) -> list[str]:
        """Run every pending migration and name them."""
        return self.driver.migrate()

    def describe(self) -> dict[str, str]:
        """What a person should know about this store."""
        return self.driver.describe()
