"""The one table of the shop."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

migrations: Any = importlib.import_module("django.db.migrations")
models: Any = importlib.import_module("django.db.models")
_Migration: Any = migrations.Migration


class Migration(_Migration):  # type: ignore[misc]
    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            "Mark",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.CharField(max_length=200)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
            ],
        )
    ]
