"""`duly retry` and `duly cancel`: an operator's order to jobs, by id or by what they have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.filters import count_meant, offer_filters, read_filters, read_rows
from duly.cli.parser import Arguments, Parser
from duly.cli.target import offer_store, opened
from duly.cli.words import counted, operator, shown
from duly.job import FINISHED, LIVE, State

if TYPE_CHECKING:
    from duly.app import App
    from duly.jobs import Acted, Jobs

NO_SUCH_JOB = "no job has this id"


class Order(NamedTuple):
    """A verb, the states it is for, and how it is given."""

    verb: str
    past: str
    states: tuple[State, ...]
    """Without --state, a filter selects these."""
    give: Callable[[Jobs, Sequence[str], str, dict[str, Any]], Acted]
    give_rows: Callable[[App, dict[str, Any]], tuple[list[str], dict[str, str]]]
    """The same to the rows of a reactive task."""


def _give_retry(jobs: Jobs, ids: Sequence[str], by: str, filters: dict[str, Any]) -> Acted:
    return jobs.retry(*ids, by=by, **filters)


def _give_cancel(jobs: Jobs, ids: Sequence[str], by: str, filters: dict[str, Any]) -> Acted:
    return jobs.cancel(*ids, by=by, **filters)


def _retry_rows(app: App, rows: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Rows are planned anew: one that has changed meanwhile runs for what it is now."""
    meant = [job.id for job in app.reactions.jobs(**rows)]
    app.reactions.retry(by=operator(), **rows)
    return meant, {}


def _cancel_rows(app: App, rows: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    acted = app.reactions.cancel(by=operator(), **rows)
    return acted.changed, acted.refused


def arguments(parser: Parser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="jobs by id")
    offer_store(parser)
    offer_filters(parser)
    parser.option("-y", "--yes", action="store_true", default=False, help="do not ask before acting on many")
    offer_json(parser)


def run(order: Order, args: Arguments) -> int:
    with opened(args) as app:
        filters = read_filters(args, app)
        if bool(args.ids) == bool(filters):
            raise UsageError(
                f"say which jobs to {order.verb}: their ids, or filters such as --task, not both"
            )
        rows = read_rows(args, filters)
        if not args.ids and not _is_confirmed(order, app, filters, rows, args):
            return Exit.NO
        if rows is None:
            changed, refused = _act(order, app, args.ids, filters)
        else:
            changed, refused = order.give_rows(app, {"state": order.states, **rows})
    answer(args, {"changed": changed, "refused": refused}, _text(order, changed, refused))
    return Exit.OK if not refused else Exit.NO


def _is_confirmed(
    order: Order, app: App, filters: dict[str, Any], rows: dict[str, Any] | None, args: Arguments
) -> bool:
    count = (
        count_meant(app, {"state": order.states, **filters})
        if rows is None
        else app.reactions.count(**{"state": order.states, **rows})
    )
    if args.yes or not count:
        return True
    question = f"{order.verb} {counted(count, 'job')}?"
    if args.json or not sys.stdin.isatty():
        raise UsageError(f"{question} Say --yes to go on without being asked")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _act(
    order: Order, app: App, ids: Sequence[str], filters: dict[str, Any]
) -> tuple[list[str], dict[str, str]]:
    given = {} if ids else {"state": order.states, **filters}
    acted = order.give(app.jobs, ids, operator(), given)
    known = {*acted.changed, *acted.refused}
    silent = {job_id: NO_SUCH_JOB for job_id in ids if job_id not in known}
    return acted.changed, silent | acted.refused


def _text(order: Order, changed: Sequence[str], refused: dict[str, str]) -> str:
    lines = [f"{order.past} {counted(len(changed), 'job')}"]
    lines += [f"{job_id}: not {order.past}: {shown(reason)}" for job_id, reason in refused.items()]
    return "\n".join(lines)


_RETRY = Order("retry", "retried", (State.FAILED,), _give_retry, _retry_rows)
_CANCEL = Order("cancel", "cancelled", tuple(sorted(LIVE)), _give_cancel, _cancel_rows)

RETRY = Command(
    description="Run finished jobs once more: a new generation with fresh budgets.",
    epilog=f"With filters, failed jobs unless --state says otherwise ({', '.join(sorted(FINISHED))}).",
    arguments=arguments,
    run=partial(run, _RETRY),
)
CANCEL = Command(
    description="Cancel waiting jobs; ask running ones to stop.",
    arguments=arguments,
    run=partial(run, _CANCEL),
)
