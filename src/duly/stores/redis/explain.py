"""explain: every condition of the claim for one job, put into words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.job import Job, State
from duly.stores.contract import Scope, Standing
from duly.stores.redis.moment import instant
from duly.stores.redis.packing import read_card, read_job
from duly.stores.reports import expiry_words

Switches = dict[str, tuple[int | None, str]]


def standing_of(
    jobs: Sequence[Any],
    moments: Sequence[int],
    front: Sequence[Any],
    held: Sequence[Any],
    present: Sequence[Any],
) -> Standing:
    """What `explain` found, as conditions that hold or do not."""
    job = read_job(jobs[0])
    now, ready_at = (instant(moment) for moment in moments)
    switches = {
        field: (closes_at, reason)
        for field, closes_at, reason in held
        if closes_at is None or instant(closes_at) > now
    }
    is_waiting = job.state is State.WAITING
    is_fresh = job.expires_at is None or job.expires_at > now
    conditions = (
        ("waiting", is_waiting, f"it is {job.state}{f' ({job.reason})' if job.reason else ''}"),
        ("due", not is_waiting or ready_at <= now, f"ready at {ready_at.isoformat()}"),
        ("first of its key", not job.is_parked, _blocker(front)),
        ("task not held", *_held(switches, Scope.TASK, job.task)),
        ("queue not held", *_held(switches, Scope.QUEUE, job.queue)),
        ("not expired", is_fresh, expiry_words(job.expires_at)),
        ("known to a live worker", *_known(present, job)),
    )
    return Standing(job, conditions)


def _blocker(front: Sequence[Any]) -> str:
    if not front:
        return "no other run of its key"
    job_id, worker, lease_end = front
    return f"run {job_id} holds the key on {worker} until {instant(lease_end).isoformat()}"


def _held(switches: Switches, scope: Scope, name: str) -> tuple[bool, str]:
    if f"{scope}:{name}" not in switches:
        return True, f"{scope} {name!r} is open"
    closes_at, reason = switches[f"{scope}:{name}"]
    until = f"until {instant(closes_at).isoformat()}" if closes_at else "until somebody resumes it"
    return False, f"{scope} {name!r} is held {until}{f': {reason}' if reason else ''}"


def _known(present: Sequence[Any], job: Job) -> tuple[bool, str]:
    live = [read_card(card, 0) for has_lease, card in present if has_lease]
    if not live:
        return False, "no worker is alive: start one with `duly worker`"
    knowing = [card.name for card in live if job.task in card.tasks]
    if not knowing:
        return False, f"none of {len(live)} live workers knows the task {job.task!r}"
    return True, f"known to {', '.join(knowing[:3])}"
