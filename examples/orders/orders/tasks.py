"""The three background tasks of the Orders application.

Everything about their delivery is said in the decorators and nowhere else. Late acknowledgement and requeue
on worker loss need no words: a job is a row until it is done, and a dead worker's jobs are lent again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from django.conf import settings

from duly import Retry, SoftLimitExceeded
from duly.django import task
from orders import cloud
from orders.cloud import CloudServiceError
from orders.logs import about_lease, get_task_logger
from orders.models import Lease

log = get_task_logger(__name__)


@task(
    retry=Retry(on=CloudServiceError, attempts=5, backoff="exponential", first="1s", cap="10m", jitter=1),
    soft_limit=settings.ORDERS_TASK_SOFT_TIME_LIMIT,
    hard_limit=settings.ORDERS_TASK_TIME_LIMIT,
    keep_result=None,
)
@about_lease
def lease_directory_search_task(lease_id: int, user_id: int) -> None:
    """Find the folder of a lease."""
    with on_lease(lease_id) as lease:
        search_directory(lease, user_id)


@task(
    retry=Retry(on=CloudServiceError, attempts=5, backoff="exponential", first="1s", cap="10m", jitter=1),
    soft_limit=settings.ORDERS_TASK_SOFT_TIME_LIMIT,
    hard_limit=settings.ORDERS_TASK_TIME_LIMIT,
    keep_result=None,
)
@about_lease
def previous_report_detection_task(lease_id: int, user_id: int) -> None:
    """Find reports that were made for a lease before."""
    with on_lease(lease_id) as lease:
        detect_reports(lease, user_id)


@task(
    retry=Retry(on=CloudServiceError, attempts=5, backoff="exponential", first="1s", cap="10m", jitter=1),
    soft_limit=settings.ORDERS_TASK_SOFT_TIME_LIMIT,
    hard_limit=settings.ORDERS_TASK_TIME_LIMIT,
    keep_result=None,
)
@about_lease
def full_runsheet_discovery_task(lease_id: int, user_id: int) -> None:
    """Everything about a lease: this is what saving one asks for."""
    with on_lease(lease_id) as lease:
        search_directory(lease, user_id)
        detect_reports(lease, user_id)
        discover_runsheet(lease, user_id)


def search_directory(lease: Lease, user_id: int) -> None:
    lease.directory = cloud.find_directory(lease.number, user_id)
    lease.save(update_fields=["directory"])
    log.info("directory %s", lease.directory)


def detect_reports(lease: Lease, user_id: int) -> None:
    lease.previous_reports = cloud.find_reports(lease.number, user_id)
    lease.save(update_fields=["previous_reports"])
    log.info("%d previous reports", len(lease.previous_reports))


def discover_runsheet(lease: Lease, user_id: int) -> None:
    lease.runsheet = cloud.find_runsheet(lease.number, user_id)
    lease.save(update_fields=["runsheet"])
    log.info("runsheet %s", lease.runsheet)


@contextmanager
def on_lease(lease_id: int) -> Generator[Lease]:
    """The lease as it is now, and its story in the log.

    Nothing but the cloud takes a minute and a half here, so the soft limit counts as a fault of the network.
    """
    try:
        lease = Lease.objects.get(pk=lease_id)
        log.info("begins")
        yield lease
        log.info("done")
    except SoftLimitExceeded as late:
        log.warning("takes too long, and is tried again")
        raise CloudServiceError(f"lease {lease_id}: the cloud took too long") from late
    except CloudServiceError as error:
        log.warning("a fault that passes: %s", error)
        raise
    except Exception:
        log.exception("fails, and is not tried again")
        raise
