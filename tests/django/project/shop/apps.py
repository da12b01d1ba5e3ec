"""The application whose tasks the tests run."""

from __future__ import annotations

import importlib
from typing import Any

_AppConfig: Any = importlib.import_module("django.apps").AppConfig


class ShopConfig(_AppConfig):  # type: ignore[misc]
    name = "tests.django.project.shop"
    label = "shop"
