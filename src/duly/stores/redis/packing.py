"""How values travel to the scripts and back. The field orders here are those the Lua files name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain, repeat
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from duly.bundle import Bundle
from duly.errors import BadRequest
from duly.job import Claim, Delivery, Fence, HistoryLine, Job, Request, State, Wish, as_claim
from duly.lifecycle import (
    EVENTS,
    Again,
    Crash,
    Defer,
    Done,
    Release,
    Standing,
    TryAgain,
    Verdict,
    conclude,
    error_of,
    fingerprint_of,
)
from duly.stores.contract import Ask, Lane, Parcel, Selection, Settlement, WorkerCard
from duly.stores.lent import Unread
from duly.stores.redis.moment import (
    instant,
    instant_or_none,
    span,
    span_or_false,
    stamp,
    stamp_or_false,
)

_UNDISTURBED: Final = Standing()

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""One encoder for everything: making it anew would cost more than using it."""


def packed(values: Any) -> bytes:
    """Values for a script."""
    return encoded(_encode(values))


def encoded(text: str) -> bytes:
    """Text for the server. Half a character is refused: nobody could read it back."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{error.object[error.start : error.end]!r} is half a character and cannot be stored. "
            "Decode the text with errors='replace', or pass bytes."
        ) from error


# --- to the scripts -----------------------------------------------------------------------------


def body_of(request: Request) -> str:
    """What the body of a run receives."""
    return body_text(request.arguments, request.context)


def body_text(arguments: str, context: str) -> str:
    """Arguments and context as the claim will send them: two JSON texts."""
    return f"{encode_basestring(arguments)},{encode_basestring(context)}"


def request_values(request: Request) -> list[Any]:
    """A request, for `read_request`."""
    guard, keep = request.guard, request.keep
    return [
        request.id,
        request.task,
        request.queue,
        request.priority,
        False if request.key is None else request.key,
        False if (serial := request.lane_of_serial) is None else serial,
        stamp_or_false(request.run_after),
        span_or_false(request.delay),
        span_or_false(request.expires_after),
        request.clash,
        request.overlap,
        request.per_key,
        False if guard is None else span(guard.window),
        guard is not None and guard.trailing,
        request.delivery,
        span(keep.done),
        span(keep.failed),
        request.perpetual,
        stamp_or_false(request.tick),
        body_of(request),
    ]


def put_values(requests: Sequence[Request]) -> dict[str, Any]:
    """Requests for `put`; of a bundle what they share travels once, which is read there six times as fast."""
    if not isinstance(requests, Bundle):
        return {"requests": [request_values(request) for request in requests]}
    context = encode_basestring(requests.pattern.context)
    bodies = [f"{encode_basestring(arguments)},{context}" for arguments in requests.arguments]
    each = list(chain.from_iterable(zip(requests.ids, bodies, strict=True)))
    return {"pattern": request_values(requests.pattern), "each": each}


def parcel_values(parcel: Parcel) -> list[Any]:
    """A parcel, for `deliver`."""
    return [parcel.number, span(parcel.age), request_values(parcel.request)]


def ending_values(settlements: Sequence[Settlement]) -> dict[str, Any]:
    """Settlements, for `settle_all`: ids by what they share, and in whole those that say more than "done"."""
    groups: list[list[Any]] = []
    others: list[Any] = []
    ids: list[str] = []
    shared: tuple[int, str, datetime | None] | None = None
    for place, ((job_id, epoch, nonce), verdict, started_at, then, *_) in enumerate(settlements, 1):
        if (epoch, nonce, started_at) != shared:
            shared, ids = (epoch, nonce, started_at), []
            groups.append([epoch, nonce, stamp_or_false(started_at), ids])
        ids.append(job_id)
        is_short = type(verdict) is Done and verdict.result is None and not (verdict.keep_result or then)
        if not is_short:
            others.append([place, settlement_values(settlements[place - 1])])
    return {"ends": groups, "others": others}


def settlement_values(settlement: Settlement) -> list[Any]:
    """A settlement, for `read_settlement`."""
    verdict, fence = settlement.verdict, settlement.fence
    return [
        fence.id,
        fence.epoch,
        fence.nonce,
        EVENTS[type(verdict)],
        stamp_or_false(settlement.started_at),
        [request_values(request) for request in settlement.then],
        settlement.arguments or False,
        conclude(verdict, _UNDISTURBED).reason,
        _or_false(error_of(verdict)),
        *_verdict_values(verdict),
        _or_false(fingerprint_of(verdict)),
    ]


def _verdict_values(verdict: Verdict) -> tuple[Any, ...]:
    """after, at, counted, result, keep_result"""
    match verdict:
        case Done(result, keep_result):
            return 0, False, False, _or_false(result), span_or_false(keep_result) or False
        case Again(at, after):
            return span(after), stamp_or_false(at), False, False, False
        case Crash(counted=counted, after=after):
            return span(after), False, counted, False, False
        case TryAgain(after=after) | Defer(after=after) | Release(after=after):
            return span(after), False, False, False, False
        case _:
            return 0, False, False, False, False


def _or_false(text: str | None) -> str | bool:
    return False if text is None else text


class _Terms(NamedTuple):
    """What a worker asks for again and again."""

    worker: str
    lease: timedelta
    queues: frozenset[str] | None
    lanes: tuple[Lane, ...]


MOST_TOLD: Final = 16
"""Workers of one store whose terms are remembered."""


class Asks:
    """Requests for work, as one store writes them.

    The terms of each worker's last one are kept with their text: to write it anew took 15 µs of each pick-up.
    Threads need no lock here: at worst a text is written twice.
    """

    def __init__(self) -> None:
        self._told: dict[str, tuple[_Terms, str]] = {}

    def text(self, ask: Ask, nonce: str, asked: int) -> str:
        """A worker's request for work, as JSON."""
        terms = _Terms(ask.worker, ask.lease, ask.queues, tuple(ask.lanes.values()))
        said, text = self._told.get(ask.worker, (None, ""))
        if said != terms:
            text = _terms_text(terms)
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told[ask.worker] = terms, text
        takes_over = "true" if ask.takes_over else "false"
        return (
            f'{{"asked":{asked:d},"limit":{ask.limit:d},"free":{ask.free:d},"takes_over":{takes_over},'
            f'"nonce":"{nonce}",{text}}}'
        )


def _terms_text(terms: _Terms) -> str:
    """The inside of an object."""
    values = {
        "worker": terms.worker,
        "card": _encode(
            _card_values(WorkerCard(terms.worker, terms.worker, "", 0, instant(0)), started_at=None)
        ),
        "lease": span(terms.lease),
        "queues": False if terms.queues is None else sorted(terms.queues),
        "lanes": [_lane_values(lane) for lane in terms.lanes],
    }
    return _encode(values)[1:-1]


def turn_text(settlements: Sequence[Settlement], ask: str) -> str:
    """What ended, and a request for more, as JSON."""
    ends = _encode(ending_values(settlements)) if settlements else '{"ends":[],"others":[]}'
    return f'{{"ask":{ask},{ends[1:]}'


def _lane_values(lane: Lane) -> list[Any]:
    rate = lane.rate
    return [
        lane.task,
        False if lane.concurrency is None else lane.concurrency,
        False if rate is None else rate.starts,
        False if rate is None else span(rate.per),
        lane.on_any_queue,
        lane.held_by,
    ]


def fence_values(fences: Iterable[Fence]) -> list[list[Any]]:
    """Fences, in their own order."""
    return [list(fence) for fence in fences]


def selection_values(selection: Selection, *, spares: Sequence[str] = ()) -> dict[str, Any]:
    """A selection without its error text, which is compared here: Lua knows no case but that of ASCII."""
    return {
        "ids": selection.ids,
        "tasks": selection.tasks,
        "states": selection.states,
        "queues": selection.queues,
        "spares": spares,
        "key": False if selection.key is None else selection.key,
        "fingerprint": False if selection.fingerprint is None else selection.fingerprint,
        "with_error": bool(selection.error),
    }


def card_text(card: WorkerCard) -> str:
    """A worker's card, as `workers` gives it back."""
    return _encode(_card_values(card, started_at=stamp(card.started_at)))


def _card_values(card: WorkerCard, started_at: int | None) -> list[Any]:
    return [
        card.id,
        card.name,
        card.host,
        card.pid,
        started_at,
        card.queues,
        card.tasks,
        card.slots,
        card.version,
    ]


# --- and back -----------------------------------------------------------------------------------


def read_card(text: str, seen_at: int) -> WorkerCard:
    """A card; one that a claim left before the first beat starts when it was seen."""
    name, label, host, pid, started_at, queues, tasks, slots, version = json.loads(text)
    started = instant(seen_at if started_at is None else started_at)
    return WorkerCard(name, label, host, pid, started, tuple(queues), tuple(tasks), slots, version)


def read_claims(text: str, amount: int, nonce: str) -> Sequence[Claim]:
    """Claims, as `show_claims` writes them: in turn what some have in common, and what is each one's own."""

    def read() -> list[Claim]:
        lent = json.loads(text)
        return [*chain.from_iterable(map(_alike, lent[::2], lent[1::2], repeat(nonce)))]

    return Unread(amount, read) if amount else []


def _alike(shared: Sequence[Any], each: Sequence[Any], nonce: str) -> list[Claim]:
    """Spelled out and in one go, since every job comes this way."""
    task, queue, key, attempt, crashes, deferrals, cycle, is_suspect, tick_at, failed_at, epoch = shared
    tick, first_failure = instant_or_none(tick_at), instant_or_none(failed_at)
    instants = {due: instant(due) for due in set(each[2::5])}  # what was put together is due together
    own = iter(each)
    return [
        as_claim(
            (
                job_id, epoch, nonce, task, queue, key, generation, arguments, attempt, crashes, deferrals,
                cycle, is_suspect, instants[due], tick, first_failure, context,
            )
        )
        for job_id, generation, due, arguments, context in zip(own, own, own, own, own, strict=True)
    ]  # fmt: skip


def read_job(values: Sequence[Any]) -> Job:
    """A job, as `show_row` writes it."""
    return Job(
        id=values[0],
        task=values[1],
        queue=values[2],
        priority=values[3],
        key=values[4],
        serial=values[5],
        generation=values[6],
        state=State(values[7]),
        ready_at=instant_or_none(values[8]),
        due=instant(values[9]),
        epoch=values[10],
        attempt=values[11],
        crashes=values[12],
        deferrals=values[13],
        cycle=values[14],
        created_at=instant(values[15]),
        finished_at=instant_or_none(values[16]),
        worker=values[17],
        reason=values[18],
        error=values[19],
        fingerprint=values[29],
        failed_at=instant_or_none(values[30]),
        result=values[20],
        is_parked=values[21],
        is_suspect=values[22],
        superseded_by=values[23],
        wish=None if values[24] is None else Wish(values[24]),
        expires_at=instant_or_none(values[25]),
        tick=instant_or_none(values[26]),
        delivery=Delivery(values[27]),
        progress=values[28],
        arguments=values[31],
        context=values[32],
        history=tuple(_read_line(line) for line in values[33]),
    )


def _read_line(values: Sequence[Any]) -> HistoryLine:
    at, event, epoch, generation, attempt, worker, started_at, note = values
    return HistoryLine(
        at=instant(at),
        event=event,
        epoch=epoch,
        generation=generation,
        attempt=attempt,
        worker=worker,
        started_at=instant_or_none(started_at),
        note=note,
    )
