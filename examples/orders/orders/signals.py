"""Saving a lease asks for its discovery: once per window, on commit, and never at the cost of the save."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_save

from duly import StoreUnavailable, bind
from orders.models import Lease
from orders.tasks import full_runsheet_discovery_task

log = logging.getLogger(__name__)


def connect() -> None:
    """Listen to saves, once."""
    post_save.connect(lease_saved, sender=Lease, dispatch_uid="orders.discovery")


def lease_saved(
    instance: Lease, using: str, update_fields: Collection[str] | None = None, raw: bool = False, **_: Any
) -> None:
    """A fixture, the tasks' own results and a lease that nobody asked for start nothing."""
    is_ours = update_fields is not None and Lease.FOUND.issuperset(update_fields)
    if raw or is_ours:
        return
    if instance.requested_by_id is None:
        log.info("lease_id=%s user_id=None is saved by nobody: no discovery", instance.pk)
        return
    transaction.on_commit(partial(request_discovery, instance.pk, instance.requested_by_id), using=using)


def request_discovery(lease_id: int, user_id: int) -> None:
    """One run per lease and window, whoever saves. The last save of a window is run when the window ends."""
    guarded = full_runsheet_discovery_task.using(
        key=f"lease:{lease_id}", unique_for=settings.ORDERS_TASK_DEDUP_TTL, trailing=True
    )
    try:
        with bind(lease_id=lease_id, user_id=user_id):
            guarded.enqueue(lease_id, user_id)
    except StoreUnavailable as error:  # the save stands; the next one asks again
        log.error("lease_id=%s user_id=%s discovery was not requested: %s", lease_id, user_id, error)
