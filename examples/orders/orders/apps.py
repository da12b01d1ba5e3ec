"""The Orders application."""

from __future__ import annotations

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """Connects the signal when Django is ready."""

    name = "orders"

    def ready(self) -> None:
        from orders import signals

        signals.connect()
