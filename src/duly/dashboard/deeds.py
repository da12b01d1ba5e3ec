"""What buttons do: a form is read, an order given, and the visitor taken back with a word about it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from duly.bulk import Outcome, named
from duly.cli.words import counted
from duly.dashboard.filters import Filters, flat
from duly.dashboard.guard import Guest
from duly.dashboard.orders import Instruction, Orders
from duly.dashboard.rendering import Renderer
from duly.durations import duration
from duly.errors import BadRequest

Form = dict[str, list[str]]


class Deeds:
    """The forms of the site."""

    def __init__(self, orders: Orders, render: Renderer, now: Callable[[], datetime]) -> None:
        self._orders = orders
        self._render = render
        self._now = now

    async def job(self, request: Request) -> Response:
        """An order to one job."""
        verb, job_id = request.path_params["order"], request.path_params["id"]
        form, by = form_of(request), name_of(request)
        at = moment(one(form, "after"), self._now())
        outcome = await run_in_threadpool(self._orders.give, verb, [job_id], by=by, at=at)
        return self._render.back(request, f"/jobs/{job_id}", told(verb, outcome))

    async def selected(self, request: Request) -> Response:
        """An order to the jobs that were ticked."""
        form, by = form_of(request), name_of(request)
        verb, ids = one(form, "order"), form.get("id", [])
        if not ids:
            raise BadRequest("Tick the jobs that are meant first.")
        outcome = await run_in_threadpool(self._orders.give, verb, ids, by=by)
        return self._render.back(request, one(form, "back"), told(verb, outcome))

    async def bulk(self, request: Request) -> Response:
        """An order to what was previewed; its page tells how far it is, whoever still looks."""
        form, by = form_of(request), name_of(request)
        newest, seen_at = preview_of(one(form, "newest"), one(form, "seen_at"))
        asked = Instruction(
            verb=one(form, "order"),
            filters=Filters.read(flat(form)),
            newest=newest,
            seen_at=seen_at,
            by=by,
            text=one(form, "text"),
            at=moment(one(form, "after"), self._now()),
        )
        errand = await run_in_threadpool(self._orders.send, asked)
        if errand.number is not None:
            query = asked.filters.query(text=asked.text, expected=one(form, "expected"))
            return self._render.back(request, f"/bulk/{errand.number}{query}")
        outcome = await run_in_threadpool(errand.result)
        back = f"/jobs{asked.filters.query(text=asked.text)}"
        return self._render.back(request, back, told(asked.verb, outcome))

    async def lane(self, request: Request) -> Response:
        """Pause or resume a task or a queue."""
        form, by = form_of(request), name_of(request)
        order, scope, name = one(form, "order"), one(form, "scope"), one(form, "name")
        if order == "pause":
            await run_in_threadpool(self._orders.pause, scope, name, by=by, reason=one(form, "reason"))
            said = f"The {scope} {name!r} is paused: its work waits, nothing is dropped."
        elif order == "resume":
            was_held = await run_in_threadpool(self._orders.resume, scope, name, by=by)
            said = f"The {scope} {name!r} goes on." if was_held else f"The {scope} {name!r} was not paused."
        else:
            raise BadRequest(f"There is no order {order!r} for a {scope}. Orders: pause, resume.")
        return self._render.back(request, one(form, "back"), said)

    async def schedule(self, request: Request) -> Response:
        """Pause, resume, trigger, edit or reset a schedule."""
        form, by = form_of(request), name_of(request)
        order, name = one(form, "order"), one(form, "name")
        said = await run_in_threadpool(self._give_schedule, order, name, form, by)
        return self._render.back(request, one(form, "back"), said)

    def _give_schedule(self, order: str, name: str, form: Form, by: str) -> str:
        orders = self._orders
        match order:
            case "pause":
                orders.pause_schedule(name, by=by)
                return f"{name!r} puts no ticks until it is resumed."
            case "resume":
                orders.resume_schedule(name, by=by)
                return f"{name!r} goes on."
            case "trigger":
                handle = orders.trigger(name, by=by)
                return f"{name!r} runs once now: {handle.decision}, job {handle.id}."
            case "edit":
                orders.edit_schedule(name, terms_of(form), by=by)
                return f"{name!r} has new terms. They survive deploys until they are reset."
            case "reset":
                orders.reset_schedule(name, by=by)
                return f"{name!r} follows the code again."
            case _:
                raise BadRequest(f"There is no order {order!r} for a schedule.")

    async def reaction(self, request: Request) -> Response:
        """Look at every row again."""
        form, by = form_of(request), name_of(request)
        task = one(form, "task")
        await run_in_threadpool(self._orders.reconcile, task, by=by)
        return self._render.back(request, "/reactions", f"Workers look at every row of {task!r} now.")


def guest_of(request: Request) -> Guest:
    """What the guard has found out."""
    found: Guest = request.scope["duly.guest"]
    return found


def form_of(request: Request) -> Form:
    """What the guard has read already."""
    return dict(guest_of(request).form)


def name_of(request: Request) -> str:
    """Who gives the order."""
    guest = guest_of(request)
    return guest.visitor.name if guest.visitor else ""


def one(form: Form, name: str) -> str:
    """A field that comes once."""
    return form.get(name, [""])[-1].strip()


def moment(after: str, now: datetime) -> datetime | None:
    """`10m` from now; nothing for now itself."""
    return now + duration(after, what="after") if after else None


def preview_of(newest: str, seen_at: str) -> tuple[int, datetime]:
    """What fixes the jobs that were shown."""
    try:
        moment = datetime.fromisoformat(seen_at)
        return int(newest), moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)
    except ValueError:
        raise BadRequest("This order has no preview: look at what it would reach first.") from None


def terms_of(form: Form) -> dict[str, Any]:
    """The terms of a schedule that were written; what was left empty stays as it is."""
    names = ("cron", "every", "timezone", "missed", "overlap", "jitter")
    given: dict[str, Any] = {name: one(form, name) for name in names if one(form, name)}
    if not given:
        raise BadRequest("Nothing was changed: write a cron line or an interval.")
    return given


def told(verb: str, outcome: Outcome) -> str:
    """What an order did, in a sentence."""
    words = f"{named(verb).past.capitalize()} {counted(outcome.changed, 'job')}."
    reasons = sorted(set(outcome.refused.values()))
    if not reasons:
        return words
    return f"{words} Refused {counted(outcome.refusals, 'job')}: {'; '.join(reasons[:3])}."
