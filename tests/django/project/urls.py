"""The admin and nothing else."""

from __future__ import annotations

import importlib
from typing import Any

_admin: Any = importlib.import_module("django.contrib.admin")
_urls: Any = importlib.import_module("django.urls")

urlpatterns = [_urls.path("admin/", _admin.site.urls)]
