"""Offer one keyed job through Django: django_offer.py URL SCHEMA ID (atomic | rollback | autocommit)."""

from __future__ import annotations

import sys

from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from duly.job import Request
from duly.stores.postgres import PostgresStore

url, schema, job_id, how = sys.argv[1:]
given = conninfo_to_dict(url)
settings.configure(  # pyright: ignore[reportUnknownMemberType]
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": given.get("dbname"),
            "USER": given.get("user"),
            "HOST": given.get("host"),
            "PORT": given.get("port", ""),
            "PASSWORD": given.get("password", ""),
        }
    },
    USE_TZ=True,
)

from django.db import connection, transaction  # noqa: E402  after the settings

store = PostgresStore(url, namespace=schema)
wanted = Request(id=job_id, task="send", arguments="[[],{}]", key="lease:42")


class Undone(Exception):
    """Rolls back."""


if how == "autocommit":
    store.run_on(connection, store.offer([wanted]))
else:
    try:
        with transaction.atomic():  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
            store.run_on(connection, store.offer([wanted]))
            if how == "rollback":
                raise Undone
    except Undone:
        pass
connection.close()
store.close()
