"""DBOS on PostgreSQL."""

from __future__ import annotations

import logging
import threading

from dbos import DBOS, DBOSClient

from benchmarks import place
from benchmarks.slots import given

logging.getLogger("dbos").setLevel(logging.ERROR)
stamp = given().stamper()


@DBOS.workflow(name="noop")
def noop(number: int) -> None:
    stamp(number)


def launch() -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": place.url(),
            "run_admin_server": False,
            "log_level": "ERROR",
            "application_version": "1",
        }
    )
    DBOS.launch()
    DBOS.register_queue("q", polling_interval_sec=0.1, worker_concurrency=500)


class Peer:
    packages = ("dbos", "psycopg", "sqlalchemy")
    settings = "workflow without steps, polling_interval_sec=0.1 (default 1), worker_concurrency=500"

    def setup(self) -> None:
        launch()
        DBOS.destroy()

    def open(self) -> None:
        self.client = DBOSClient(system_database_url=place.url())

    def close(self) -> None:
        self.client.destroy()

    def enqueue(self, number: int) -> None:
        self.client.enqueue({"workflow_name": "noop", "queue_name": "q", "app_version": "1"}, number)

    def worker(self) -> None:
        launch()
        threading.Event().wait()
