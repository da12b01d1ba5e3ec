"""A lease, as users edit it and as the tasks complete it."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Lease(models.Model):
    """A lease whose documents are looked for in the cloud."""

    number = models.CharField(max_length=100)
    agency = models.CharField(max_length=100, blank=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    """Who saved it last: the search is made in this user's name."""

    directory = models.CharField(max_length=500, blank=True)
    previous_reports = models.JSONField(default=list, blank=True)
    runsheet = models.CharField(max_length=500, blank=True)

    FOUND = frozenset({"directory", "previous_reports", "runsheet"})
    """What the tasks write. A save of nothing else but these asks for no new search."""

    def __str__(self) -> str:
        return self.number
