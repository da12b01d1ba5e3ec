"""A shop whose work follows its data: order receipts, and news for those who wait for a product.

    python examples/reactive_shop.py            # shop.db in a folder of its own
    python examples/reactive_shop.py /tmp/shop  # keep the file there

Nothing here enqueues anything: rows change, and what follows from them is done.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path

from duly import Change, Duly, Run

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="duly-shop-"))
FOLDER.mkdir(exist_ok=True)
FILE = FOLDER / "shop.db"

app = Duly(f"sqlite:///{FILE}")


@app.react(table="orders", where="status = 'paid'", watch=["status", "total"])
def send_receipt(change: Change, run: Run) -> None:
    """An e-mail is not a row: the key lets the provider drop a second one after a crash."""
    order = change.document(["customer", "total"])
    print(f"  mail to {order['customer']}: you paid {order['total']} (idempotency key {run.idempotency_key})")


@app.react(table="products", where="stock > 0 and waiting > 0", watch=["stock"], delivery="exactly_once")
def back_in_stock(change: Change, run: Run) -> None:
    """Notices and the cleared waiting list commit together, and only if the product is still in stock."""
    product = change.document(["name", "stock", "waiting"])
    for place in range(min(product["stock"], product["waiting"])):
        run.connection.execute("insert into notices values (?, ?)", (change.key, place + 1))
    run.connection.execute("update products set waiting = 0 where id = ?", (change.key,))
    print(f"  {product['name']} is back: {min(product['stock'], product['waiting'])} customers told")


def main() -> None:
    app.open()
    database = sqlite3.connect(FILE, isolation_level=None)
    for statement in (
        "create table orders (id integer primary key, customer text, status text, total integer)",
        "create table products (id integer primary key, name text, stock integer, waiting integer)",
        "create table notices (product integer, place integer)",
        "insert into products values (1, 'teapot', 0, 2), (2, 'kettle', 3, 0)",
    ):
        database.execute(statement)

    def then(what: str, *statements: str) -> None:
        print(what)
        for statement in statements:
            database.execute(statement)
        app.run(burst=True)

    then("Two orders are made, one is paid:", "insert into orders values (1, 'Ann', 'paid', 20)",
         "insert into orders values (2, 'Bob', 'new', 30)")  # fmt: skip
    then("The other is paid too:", "update orders set status = 'paid' where id = 2")
    then("A note changes nothing that matters:", "update orders set customer = 'Bob B.' where id = 2")
    arrive, leave = (f"update products set stock = {stock} where id = 1" for stock in (5, 0))
    then("Teapots arrive and are sold at once; nobody is told of stock that is gone:", arrive, leave)
    then("Teapots arrive to stay:", arrive)
    print("Notices:", database.execute("select * from notices").fetchall())
    for view in app.reactions.list():
        print(f"{view.task}: {view.state}, {view.matched} rows match")


if __name__ == "__main__":
    main()
