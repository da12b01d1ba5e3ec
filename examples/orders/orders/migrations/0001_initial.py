"""The table of leases."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Made by makemigrations."""

    initial = True
    dependencies: ClassVar[list[Any]] = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="Lease",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.CharField(max_length=100)),
                ("agency", models.CharField(blank=True, max_length=100)),
                ("directory", models.CharField(blank=True, max_length=500)),
                ("previous_reports", models.JSONField(blank=True, default=list)),
                ("runsheet", models.CharField(blank=True, max_length=500)),
                (
                    "requested_by",
                    models.ForeignKey(null=True, on_delete=models.SET_NULL, to=settings.AUTH_USER_MODEL),
                ),
            ],
        ),
    ]
