"""Saving a lease here starts its discovery."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from orders.models import Lease


@admin.register(Lease)
class LeaseAdmin(admin.ModelAdmin):
    """The tasks' fields are for reading."""

    list_display = ("number", "agency", "directory", "runsheet")
    readonly_fields = ("requested_by", *sorted(Lease.FOUND))

    def save_model(self, request: Any, obj: Lease, form: Any, change: bool) -> None:
        obj.requested_by = request.user
        super().save_model(request, obj, form, change)
