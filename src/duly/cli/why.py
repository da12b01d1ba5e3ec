"""`duly why`: every condition of the claim for one job, each true or false, and what that comes to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import job_row
from duly.cli.exits import Exit, Refusal
from duly.cli.filters import full_name, known_tasks
from duly.cli.parser import Arguments, Parser
from duly.cli.redaction import Redaction
from duly.cli.tables import has_colour, painted
from duly.cli.target import offer_store, opened
from duly.cli.words import counted, did_you_mean, last_line, relative, shown
from duly.job import FINISHED, Job, State
from duly.stores.contract import Standing

if TYPE_CHECKING:
    from duly.app import App

Condition = tuple[str, bool, str]
"""What it is about, whether it holds, and in words."""

NEARBY = 500
"""How many of a task's newest jobs are looked at for a key that was mistyped."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """One job and everything that bears on its start."""

    job: Job
    conditions: Sequence[Condition]
    now: datetime

    @property
    def obstacles(self) -> list[Condition]:
        """What does not hold."""
        return [condition for condition in self.conditions if not condition[1]]


def arguments(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task's name, or a job's id alone")
    parser.add_argument("key", nargs="?", metavar="KEY", help="what the work is about")
    offer_store(parser)
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        job = app.jobs.get(args.task) if args.key is None else _job_of_key(app, args.task, args.key)
        found = reasons(app, job)
        found = replace(found, job=Redaction(app).job(found.job))
    sentence = conclusion(found)
    document = {"job": job_row(found.job), "conditions": _rows(found), "conclusion": sentence}
    answer(args, document, _text(found, sentence))
    return Exit.OK


# finding the job


def _job_of_key(app: App, name: str, key: str) -> Job:
    """The one people ask about: what waits, else what runs, else what ended last."""
    tasks = known_tasks(app)
    task = full_name(name, tasks)
    if task is None:
        raise Refusal(f"nobody has heard of a task {name!r}. {did_you_mean(name, tasks)}".rstrip())
    found = app.jobs.list(task=task, key=key, limit=20)
    if not found:
        raise Refusal(_no_such_key(app, task, key))
    ranks = {State.WAITING: 0, State.RUNNING: 1}
    return min(found, key=lambda job: ranks.get(job.state, 2))


def _no_such_key(app: App, task: str, key: str) -> str:
    jobs = app.jobs.list(task=task, limit=NEARBY)
    keys = {job.key for job in jobs if job.key is not None}
    some = ", ".join(map(repr, sorted(keys)[:3]))
    otherwise = (
        f"Its keys are like {some}." if keys else "Its jobs have no keys." if jobs else "It has no jobs."
    )
    return f"no job of {task!r} has the key {key!r}. {did_you_mean(key, keys, otherwise)}"


# the conditions


def reasons(app: App, job: Job) -> Reasons:
    """Every condition of the claim, the store's and the workers'."""
    standing: Standing | None = app.store.run(app.store.explain(job.id))
    if standing is None:  # committed, but not placed yet: the next worker's look will
        return Reasons(
            job, [("placed", False, "its request is committed and waits to be placed")], app.clock.now()
        )
    own = _own_conditions(app, standing.job) if standing.job.state is State.WAITING else []
    return Reasons(standing.job, [*standing.conditions, *own], app.clock.now())


def _own_conditions(app: App, job: Job) -> list[Condition]:
    """What the store's claim leaves to the workers that ask: their slots, and the limits in the code."""
    conditions = [_slots(app, job)]
    task = app.tasks.get(job.task)
    if task is not None and task.options.concurrency is not None:
        running = app.jobs.count(task=job.task, state="running")
        limit = task.options.concurrency
        words = f"{running} of at most {limit} runs of the task are in progress"
        conditions.append(("below the task's concurrency", running < limit, words))
    return conditions


def _slots(app: App, job: Job) -> Condition:
    store = app.store
    knowing = [
        card
        for card, _, has_lease in store.run(store.workers())
        if has_lease and job.task in card.tasks and (not card.queues or job.queue in card.queues)
    ]
    slots = sum(card.slots for card in knowing)
    ids = {card.id for card in knowing}
    running = sum(run.worker in ids for run in app.jobs.list(state="running", limit=max(slots, 1) * 2))
    if not knowing:
        return "a slot is free", False, f"no live worker serves queue {job.queue!r} with this task"
    return "a slot is free", running < slots, f"{running} of {counted(slots, 'slot')} are taken"


def _rows(reasons: Reasons) -> list[dict[str, Any]]:
    return [
        {"condition": name, "holds": holds, "explanation": words} for name, holds, words in reasons.conditions
    ]


# what it comes to


def conclusion(reasons: Reasons) -> str:
    """One sentence."""
    job, now = reasons.job, reasons.now
    if job.state in FINISHED:
        error = f": {last_line(job.error)}" if job.state is State.FAILED and job.error else ""
        reason = f" ({job.reason})" if job.reason and job.reason != job.state else ""
        return f"It does not run because it is {job.state}{reason}, {relative(job.finished_at, now)}{error}."
    if job.state is State.RUNNING:
        return _running(job, now)
    if reasons.obstacles:
        return f"It waits because {' and '.join(words for _, _, words in _telling(reasons))}."
    return (
        f"Nothing holds it: it was due {relative(job.ready_at, now)} and a worker takes it at its next look."
    )


def _running(job: Job, now: datetime) -> str:
    if job.ready_at is not None and job.ready_at <= now:
        ended = relative(job.ready_at, now)
        return f"Its worker {job.worker} was lost: the lease ended {ended} and the next free worker takes it."
    return f"It is running now on {job.worker}; the lease ends {relative(job.ready_at, now)}."


def _telling(reasons: Reasons) -> list[Condition]:
    """With nobody alive to take it, that no slot is free says nothing more."""
    nobody = any(name == "known to a live worker" for name, _, _ in reasons.obstacles)
    return [obstacle for obstacle in reasons.obstacles if not (nobody and obstacle[0] == "a slot is free")]


def _text(reasons: Reasons, sentence: str) -> str:
    job = reasons.job
    width = max(len(name) for name, _, _ in reasons.conditions)
    colour = has_colour(sys.stdout)
    lines = [f"{job.id} {job.task} {job.key or ''}".rstrip()]
    for name, holds, words in reasons.conditions:
        mark = "yes" if holds else "no "
        shade = "ok" if holds else "fail"
        lines.append(f"  {painted(mark, shade) if colour else mark}  {name:<{width}}  {shown(words)}")
    return "\n".join([shown(lines[0]), *lines[1:], "", shown(sentence)])


WHY = Command(
    description="Say why a job is not running now: every condition of its claim, and what that comes to.",
    arguments=arguments,
    run=run,
)
