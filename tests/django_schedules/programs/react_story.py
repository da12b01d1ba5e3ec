"""A model that is followed, through a migration that takes its triggers away. Prints what was seen."""

from __future__ import annotations

import importlib
import json
from typing import Any

importlib.import_module("django").setup()

from tests.django.project.shop.models import Mark  # noqa: E402

from duly import Change  # noqa: E402
from duly.django import database_engine, react  # noqa: E402

management: Any = importlib.import_module("django.core.management")
models: Any = importlib.import_module("django.db.models")
connection: Any = importlib.import_module("django.db").connection
saw: list[str] = []


@react(model=Mark, where=models.Q(text__startswith="paid"), watch=["text"])
def receipt(change: Change) -> None:
    saw.append(f"{change.key} {Mark.objects.get(pk=change.key).text}")


def work() -> list[str]:
    """What a worker makes of the changes so far."""
    saw.clear()
    management.call_command("duly_worker", burst=True, verbosity=0)
    return sorted(saw)


def triggers() -> int:
    """How many there are on the table."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "select count(*) from sqlite_master where type = 'trigger' and tbl_name = 'shop_mark'"
            )
        else:
            cursor.execute(
                "select count(*) from pg_trigger where tgrelid = 'shop_mark'::regclass and not tgisinternal"
            )
        return int(cursor.fetchone()[0])


def rebuild() -> None:
    """Alter a column, as a migration does: on SQLite that makes the table anew, without its triggers."""
    before = Mark._meta.get_field("text")
    after = models.TextField()
    after.set_attributes_from_name("text")
    after.model = Mark
    with connection.schema_editor() as editor:
        for name in names() if connection.vendor == "postgresql" else ():
            editor.execute(f'drop trigger "{name}" on shop_mark')
        editor.alter_field(Mark, before, after)


def names() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select tgname from pg_trigger where tgrelid = 'shop_mark'::regclass and not tgisinternal"
        )
        return [name for (name,) in cursor.fetchall()]


steps: dict[str, Any] = {}
management.call_command("migrate", verbosity=0)
steps["after migrate"] = triggers()
one = Mark.objects.create(text="paid 1")
Mark.objects.create(text="open")
steps["created"] = work()
Mark.objects.filter(text="open").update(text="paid 2")
steps["updated"] = work()
rebuild()
steps["rebuilt"] = triggers()
management.call_command("migrate", verbosity=0)
steps["in step"] = triggers()
Mark.objects.filter(pk=one.pk).update(text="paid anew")
steps["after"] = work()
steps["tasks"] = [view.task for view in database_engine().reactions.list()]
print(json.dumps(steps))
