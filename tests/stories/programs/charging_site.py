"""A Django site with one exactly-once task: charging_site.py URL NAMESPACE TABLE works|fails|undoes.

A process of its own, because Django is configured once. Prints the job's state, and how many of the jobs that
the body enqueued wait.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from duly import Duly, Run

URL, NAMESPACE, TABLE, HOW = sys.argv[1:]


def database() -> dict[str, Any]:
    if URL.startswith("sqlite"):
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": URL.removeprefix("sqlite:///"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    given = conninfo_to_dict(URL)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "HOST": given["host"],
    }


settings: Any = import_module("django.conf").settings
settings.configure(DATABASES={"default": database()}, INSTALLED_APPS=[])
django: Any = import_module("django")
django.setup()
transaction: Any = import_module("django.db").transaction
connections: Any = import_module("django.db").connections
logging.getLogger("duly").setLevel(logging.CRITICAL)

app = Duly(URL, namespace=NAMESPACE, transactions="django:default")


@app.task
def receipt() -> None: ...


@app.task(delivery="exactly_once")
def charge(run: Run) -> None:
    with connections["default"].cursor() as cursor:  # as any model would, without run.connection
        cursor.execute(f"insert into {TABLE} values (7)")
    receipt.using(run_after="1h").enqueue()
    if HOW == "fails":
        raise ValueError("no credit")
    if HOW == "undoes":
        transaction.set_rollback(True)


app.open()
job = charge.enqueue()
app.run(burst=True)
waiting = app.jobs.count(task=receipt)
print(job.state(), f"waiting:{waiting}")
