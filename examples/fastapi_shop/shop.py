"""A small shop on FastAPI, with the worker in the web process.

    uvicorn shop:site                                          # from this folder
    curl -X POST 'localhost:8000/orders?customer=ann&total=20'
    curl localhost:8000/orders/1

An order and the job that follows it are one commit. To run the worker elsewhere (`duly worker shop:app`), set
SHOP_WORKER=no; nothing else changes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException

from duly import Duly, Retry, Run
from duly.integrations.asgi import health, lifespan

FILE = os.environ.get("SHOP_FILE", "shop.db")

app = Duly(f"sqlite:///{FILE}")


class MailError(Exception):
    """The mail provider could not be reached."""


@app.task(retry=Retry(on=MailError, attempts=5, first="1s", cap="10m"), soft_limit="20s")
async def confirm(run: Run, order: int) -> None:
    """An e-mail is not a row: the provider drops a second one with the same key."""
    run.log.info("confirming order %s, idempotency key %s", order, run.idempotency_key)


@app.schedule(every="1m", name="forget carts")
@app.task(delivery="exactly_once")
def forget_old_carts(run: Run) -> None:
    run.connection.execute("delete from orders where status = 'cart' and made < datetime('now', '-1 day')")


def opened() -> Iterator[sqlite3.Connection]:
    """A connection for one request."""
    with closing(sqlite3.connect(FILE, check_same_thread=False)) as connection:
        yield connection


def prepare() -> None:
    with closing(sqlite3.connect(FILE)) as connection:
        connection.execute(
            "create table if not exists orders (id integer primary key, customer text, total integer,"
            " status text default 'new', made text default current_timestamp, job text)"
        )


prepare()
app.open()

if os.environ.get("SHOP_WORKER") == "no":
    site = FastAPI()
else:
    site = FastAPI(lifespan=lifespan(app, concurrency=5))
    site.add_route("/health", health)

Database = Annotated[sqlite3.Connection, Depends(opened)]


@site.post("/orders", status_code=201)
def order(customer: str, total: int, database: Database) -> dict[str, Any]:
    """The order, its job, and the note which job it is: there together, or not at all."""
    with database:
        cursor = database.execute("insert into orders (customer, total) values (?, ?)", (customer, total))
        number = cursor.lastrowid
        assert number is not None
        job = confirm.using(connection=database).enqueue(number)
        database.execute("update orders set job = ? where id = ?", (job.id, number))
    return {"order": number, "job": job.id}


@site.get("/orders/{number}")
def look(number: int, database: Database) -> dict[str, Any]:
    row = database.execute("select customer, total, job from orders where id = ?", (number,)).fetchone()
    if row is None:
        raise HTTPException(404, f"There is no order {number}.")
    return {"customer": row[0], "total": row[1], "confirmation": app.jobs.get(row[2]).state}
