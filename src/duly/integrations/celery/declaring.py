"""A task's declaration in Celery's words, or a refusal where Celery has none."""

from __future__ import annotations

from typing import Any, Final

from celery import Task as CeleryTask

from duly.errors import DefinitionError
from duly.job import Delivery, Overlap
from duly.options import Options

REMEDY: Final = "Leave it out, or run this task on Duly."


def celery_options(options: Options) -> dict[str, Any]:
    """Late acknowledgement and requeue on worker loss for all; limits and results as declared."""
    refuse_unkept(options)
    return {
        "name": options.name,
        "acks_late": True,
        "reject_on_worker_lost": True,
        "soft_time_limit": _seconds(options.soft_limit),
        "time_limit": _seconds(options.hard_limit),
        "ignore_result": options.keep_result is None,
        "max_retries": None,  # Duly's policy counts; Celery only carries out
        **_timeout_words(is_requeued=options.retry is not None),
    }


def _seconds(span: Any) -> float | None:
    return None if span is None else span.total_seconds()


def _timeout_words(*, is_requeued: bool) -> dict[str, bool]:
    """By default Celery acknowledges what a hard limit killed, and the work is lost.

    A task with a retry policy is requeued instead; the count of starts ends what never ends.
    """
    if hasattr(CeleryTask, "acks_on_timeout"):
        return {"acks_on_timeout": not is_requeued, "acks_on_failure": True}
    return {"acks_on_failure_or_timeout": not is_requeued}  # Celery before 5.7 knows one word for both


def refuse_unkept(options: Options) -> None:
    """A promise that would silently be broken is an error where it is made."""
    unkept = {
        "concurrency": options.concurrency is not None,
        "concurrency_per_key": options.concurrency_per_key is not None,
        "rate": options.rate is not None,
        "on_failure": options.on_failure is not None,
        "priority": options.priority != 0,
        f"overlap={str(options.overlap)!r}": options.overlap is not Overlap.QUEUE_ONE,
    }
    for word, is_asked in unkept.items():
        if is_asked:
            raise DefinitionError(f"Task {options.name}: Celery cannot keep {word}. {REMEDY}")
    if options.delivery is Delivery.EXACTLY_ONCE:
        raise DefinitionError(
            f"Task {options.name}: Celery's broker is not your database, so delivery='exactly_once' cannot "
            "be kept. Guard the function by a receipt instead: @exactly_once(ledger=…) below @app.task."
        )
    if options.delivery is Delivery.AT_MOST_ONCE:
        raise DefinitionError(f"Task {options.name}: what is acknowledged late may run twice. {REMEDY}")
