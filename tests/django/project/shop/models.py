"""What tasks leave behind: one row for each effect."""

from __future__ import annotations

import importlib
from typing import Any

models: Any = importlib.import_module("django.db.models")
Model: Any = models.Model


class Mark(Model):  # type: ignore[misc]
    """An effect, to be counted."""

    text = models.CharField(max_length=200)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "shop"
