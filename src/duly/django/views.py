"""The receipts of the ledger as a view with Django's types, made by a migration for each kind of database."""

from __future__ import annotations

import importlib
from typing import Any, Final

from duly.django.compat import router
from duly.ledger import Ledger

Operation: Any = importlib.import_module("django.db.migrations.operations.base").Operation

_SELECT: Final = """
create view duly_django_execution as
select r.id, r.name as task, r.state as status, r.epoch as claims, {created} as created_at,
    {completed} as completed_at, coalesce(d.hand_overs, 0) as hand_overs, {handed} as handed_over_at,
    {next} as next_hand_over_at, r.payload
from {receipt} r left join {delivery} d on d.id = r.id"""
_TIMES: Final = {
    "created": "r.created_at",
    "completed": "r.completed_at",
    "handed": "d.handed_over_at",
    "next": "d.next_at",
}
_SQLITE: Final = "strftime('%Y-%m-%d %H:%M:%f', {} / 1000000.0, 'unixepoch')"
_POSTGRES: Final = "to_timestamp({} / 1000000.0)"


def _text(time: str, receipt: str, delivery: str) -> str:
    times = {name: time.format(column) for name, column in _TIMES.items()}
    return _SELECT.format(receipt=receipt, delivery=delivery, **times)


VIEWS: Final = {
    "sqlite": _text(_SQLITE, "duly_ledger_receipt", "duly_ledger_delivery"),
    "postgresql": _text(_POSTGRES, "duly_ledger.receipt", "duly_ledger.delivery"),
}


class ExecutionsView(Operation):  # type: ignore[misc]
    """Step `number` of the ledger's tables, and the view on them."""

    reduces_to_sql = False
    reversible = True

    def __init__(self, number: int) -> None:
        self.number = number

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """As it is written in a migration."""
        return type(self).__name__, [self.number], {}

    def describe(self) -> str:
        """One line for `manage.py migrate --plan`."""
        return f"Step {self.number} of the tables of executions"

    def state_forwards(self, app_label: str, state: Any) -> None:
        """The model of the view is declared beside this."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """The ledger makes what is missing, as it does when nobody migrates."""
        connection = schema_editor.connection
        is_wanted = connection.vendor in VIEWS and router.allow_migrate(connection.alias, app_label)
        if schema_editor.collect_sql or not is_wanted:
            return
        Ledger(f"django:{connection.alias}").migrate()
        schema_editor.execute("drop view if exists duly_django_execution", params=None)
        schema_editor.execute(VIEWS[connection.vendor], params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Take the view away, and with the first step the tables."""
        vendor = schema_editor.connection.vendor
        schema_editor.execute("drop view if exists duly_django_execution", params=None)
        for text in DROPS.get(vendor, ()) if self.number == 1 else ():
            schema_editor.execute(text, params=None)


DROPS: Final = {
    "sqlite": tuple(f"drop table if exists duly_ledger_{name}" for name in ("receipt", "delivery", "schema")),
    "postgresql": ("drop schema if exists duly_ledger cascade",),
}
