"""Backends for tests: Django's immediate and dummy ones, which take the options of Duly as well."""

from __future__ import annotations

from duly.django.compat import stock_backend

ImmediateBackend = stock_backend("immediate", "ImmediateBackend")
DummyBackend = stock_backend("dummy", "DummyBackend")
