"""A site whose orders are followed: a model as `table`, a Q as `where`, bulk operations, and a migration.

A process of its own, because Django is configured once. Prints as JSON what the task was told, step
by step.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from duly import Change, DefinitionError, Duly

URL, NAMESPACE, TABLE = sys.argv[1:]


def database() -> dict[str, Any]:
    if URL.startswith("sqlite"):
        name = URL.removeprefix("sqlite:///")
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": {"timeout": 10}}
    given = conninfo_to_dict(URL)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "HOST": given["host"],
    }


settings: Any = import_module("django.conf").settings
settings.configure(
    DATABASES={"default": database()}, INSTALLED_APPS=[], DEFAULT_AUTO_FIELD="django.db.models.AutoField"
)
import_module("django").setup()
models: Any = import_module("django.db.models")
connection: Any = import_module("django.db").connection
logging.getLogger("duly").setLevel(logging.CRITICAL)


class Customer(models.Model):  # type: ignore[misc]
    name = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = f"{TABLE}_customer"


class Order(models.Model):  # type: ignore[misc]
    status = models.CharField(max_length=20)
    total = models.IntegerField(default=0)
    customer = models.ForeignKey(Customer, null=True, on_delete=models.CASCADE)

    class Meta:
        app_label = "shop"
        db_table = TABLE


with connection.schema_editor() as editor:
    editor.create_model(Customer)
    editor.create_model(Order)

app = Duly(URL, namespace=NAMESPACE)
told: list[tuple[int, str]] = []
steps: dict[str, Any] = {}


@app.react(
    table=Order,
    where=models.Q(status="it's 100% paid") | models.Q(status__in=["paid"], total__gt=5),
    watch=["status"],
)
def receipt(change: Change) -> None:
    told.append((change.key, change.document()["status"]))


def step(name: str) -> None:
    told.clear()
    app.run(burst=True)
    steps[name] = sorted(told)


Order.objects.create(status="paid", total=10)
Order.objects.create(status="paid", total=1)
Order.objects.create(status="it's 100% paid")
step("saved")
Order.objects.bulk_create([Order(status="paid", total=9), Order(status="new", total=9)])
Order.objects.filter(status="new").update(status="paid")
step("in bulk")
with connection.schema_editor() as editor:  # on SQLite this builds the table anew, without triggers
    old = Order._meta.get_field("status")
    new = models.CharField(max_length=40)
    new.set_attributes_from_name("status")
    new.model = Order
    editor.alter_field(Order, old, new)
Order.objects.create(status="paid", total=99)
step("after a migration")
try:
    app.react(table=Order, where=models.Q(customer__name="Ann"), name="joins")(receipt.function)
except DefinitionError as error:
    steps["joins"] = str(error)
print(json.dumps(steps))
