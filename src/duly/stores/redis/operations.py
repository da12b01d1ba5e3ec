"""The operations: what each asks a script, and how its answer reads. No I/O in here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count, repeat
from typing import Any, Final, TypeVar, cast

from duly.bundle import Bundle, patterns
from duly.clock import SystemClock
from duly.ids import new_nonce
from duly.job import Decision, Delivery, Fence, Job, Request
from duly.lifecycle import Settled
from duly.stores.contract import (
    REMEMBERED,
    Amended,
    Amendment,
    Ask,
    Attendance,
    Cancel,
    Census,
    Claimed,
    Delete,
    Grip,
    Order,
    Page,
    Parcel,
    Placed,
    Postpone,
    Renewal,
    Revive,
    Scope,
    Selection,
    Settlement,
    Standing,
    Switch,
    Turned,
    WorkerCard,
)
from duly.stores.drive import Operation, Statement, Steps, Verbatim
from duly.stores.redis.counting import census
from duly.stores.redis.counting import count as count_jobs
from duly.stores.redis.explain import standing_of
from duly.stores.redis.find import all_ids, failures, find
from duly.stores.redis.find import search as find_text
from duly.stores.redis.moment import instant, instant_or_none, span, stamp_or_false
from duly.stores.redis.packing import (
    Asks,
    card_text,
    encoded,
    ending_values,
    fence_values,
    packed,
    parcel_values,
    put_values,
    read_card,
    read_claims,
    selection_values,
    turn_text,
)
from duly.stores.redis.server import LAYOUT
from duly.stores.redis.straight import straight_words
from duly.stores.reports import Entry, FailureGroup, Found, Search

T = TypeVar("T")

LARGEST_PUT: Final = 1000
"""Requests per script: the server does nothing else meanwhile. A longer list is several atomic puts."""
_decoder: Final = json.JSONDecoder()
_SETTLED: Final = {str(answer): answer for answer in Settled}
ORDERS: Final[dict[type[Amendment], str]] = {
    Cancel: "cancel",
    Delete: "delete",
    Revive: "revive",
    Postpone: "postpone",
}


def _claimed(text: str, nonce: str) -> Claimed:
    """Without reading the claims: they can wait until the server is asked again."""
    end = text.rindex("]", 0, -1) + 1
    next_at, now, amount = json.loads(f"[{text[end + 1 :]}")
    return Claimed(read_claims(text[1:end], amount, nonce), instant_or_none(next_at), instant(now))


def _answers(words: Sequence[str], count: int) -> list[Settled]:
    """One for each; none are sent where all are settled."""
    return list(map(_SETTLED.__getitem__, words)) if words else [Settled.SETTLED] * count


def _asked() -> int:
    """When a worker speaks, by a clock of its own host: what it says later has a larger number."""
    return round(SystemClock().boot() * 1_000_000)


def _portions(values: Sequence[Any]) -> list[Sequence[Any]]:
    return [values[at : at + LARGEST_PUT] for at in range(0, len(values), LARGEST_PUT)]


def _putting(requests: Sequence[Request]) -> Steps[list[Placed]]:
    # All are packed before the first is sent: one that cannot be stored keeps the others out too.
    parts = [packed(put_values(part)) for part in _portions(requests)]
    placed: list[Placed] = []
    for part, given in zip(_portions(requests), parts, strict=True):
        answer: Sequence[Any] = yield Statement("put", given)
        placed += _in_order(part, answer[0]) if isinstance(answer[0], int) else _each(answer)
    return placed


def _in_order(requests: Sequence[Request], first: int) -> list[Placed]:
    """All of them created, each with the next generation."""
    ids = requests.ids if isinstance(requests, Bundle) else [request.id for request in requests]
    return list(map(Placed, ids, count(first), repeat(Decision.CREATED)))


def _each(rows: Sequence[Any]) -> list[Placed]:
    return [Placed(job_id, generation, Decision(decision)) for job_id, generation, decision in rows]


def reading(name: str, steps: Callable[[], Steps[T]]) -> Operation[T]:
    """An operation that changes nothing."""
    return Operation(name, steps, writes=False)


class Operations:
    """Everything a store can be asked to do."""

    def __init__(self) -> None:
        self._asks = Asks()

    def check_delivery(self, delivery: Delivery) -> None:
        """Refuse a promise that this server cannot keep; the driver knows the server."""

    # jobs

    def put(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        def steps() -> Steps[list[Placed]]:
            if (words := straight_words(requests)) is not None:  # and so none that starts at most once
                first: Any = yield Statement("straight", words)
                if first:
                    return _in_order(requests, first)
            for delivery in {request.delivery for request in patterns(requests)}:
                self.check_delivery(delivery)
            return (yield from _putting(requests))

        return Operation("put", steps)

    def offer(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self.put(requests)

    def deliver(self, outbox: str, parcels: Sequence[Parcel]) -> Operation[list[Placed]]:
        def steps() -> Steps[list[Placed]]:
            for delivery in {parcel.request.delivery for parcel in parcels}:
                self.check_delivery(delivery)
            given = {"outbox": outbox, "remembered": span(REMEMBERED)}
            values = [parcel_values(parcel) for parcel in parcels]
            placed: list[Placed] = []
            for part in [packed(given | {"parcels": part}) for part in _portions(values)]:
                placed += _each((yield Statement("deliver", part)))
            return placed

        return Operation("deliver", steps)

    def claim(self, ask: Ask) -> Operation[Claimed]:
        def steps() -> Steps[Claimed]:
            nonce = new_nonce()
            told: Any = yield Verbatim("claim", encoded(self._asks.text(ask, nonce, _asked())))
            return _claimed(told[1:-1], nonce)

        return Operation("claim", steps)

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Operation[list[Settled]]:
        def steps() -> Steps[list[Settled]]:
            [answers] = yield Statement("settle", {"worker": worker, **ending_values(settlements)})
            return _answers(answers, len(settlements))

        return Operation("settle", steps)

    def foresee(self, settlements: Sequence[Settlement]) -> None:
        """Nothing: two workers beside a server on two cores lost more by looking for ends than they saved."""

    def turn(self, settlements: Sequence[Settlement], ask: Ask) -> Operation[Turned]:
        def steps() -> Steps[Turned]:
            nonce = new_nonce()
            asked = turn_text(settlements, self._asks.text(ask, nonce, _asked()))
            told: Any = yield Verbatim("turn", encoded(asked))
            answers, end = _decoder.raw_decode(told, 1)
            return Turned(_answers(answers, len(settlements)), _claimed(told[end + 1 : -1], nonce))

        return Operation("turn", steps)

    def begin(
        self, fences: Sequence[Fence], *, isolated: bool, once: bool = False
    ) -> Operation[frozenset[Fence]]:
        def steps() -> Steps[frozenset[Fence]]:
            values = {"fences": fence_values(fences), "isolated": isolated, "once": once}
            [begun] = yield Statement("begin", values)
            return frozenset([fences[int(place)] for place in begun])

        return Operation("begin", steps)

    def renew(self, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Operation[Renewal]:
        def steps() -> Steps[Renewal]:
            values = {
                "worker": card.id,
                "host": card.host,
                "card": card_text(card),
                "lease": span(lease),
                "layout": LAYOUT,
                "fences": fence_values(fences),
            }
            told: Sequence[tuple[int, str]]
            told, (is_at_home,) = cast(Any, (yield Statement("renew", values)))
            lost = frozenset(fences[place] for place, word in told if word == "lost")
            orders = {fences[place]: Order(word) for place, word in told if word != "lost"}
            return Renewal(lost, orders, is_at_home=is_at_home)

        return Operation("renew", steps)

    def report(self, progress: Mapping[Fence, str]) -> Operation[None]:
        def steps() -> Steps[None]:
            yield Statement("report", [[*fence, text] for fence, text in progress.items()])

        return Operation("report", steps)

    def disown(self, worker: str, held: Sequence[Fence]) -> Operation[int]:
        def steps() -> Steps[int]:
            values = {"worker": worker, "asked": _asked(), "held": fence_values(held)}
            [[released]] = yield Statement("disown", values)
            return int(released)

        return Operation("disown", steps)

    def amend(
        self, selection: Selection, amendment: Amendment, *, by: str = "", limit: int = 1000
    ) -> Operation[list[Amended]]:
        def steps() -> Steps[list[Amended]]:
            chosen = yield from all_ids(selection, limit, spares=selection.spares)
            if not chosen:
                return []
            values = {
                "ids": chosen,
                "selection": selection_values(selection, spares=selection.spares),
                "order": ORDERS[type(amendment)],
                "at": stamp_or_false(amendment.at) if isinstance(amendment, Postpone) else False,
                "by": by,
            }
            amended = yield Statement("amend", values)
            return [_amended(*one) for one in amended]

        return Operation("amend", steps)

    def prune(self, limit: int) -> Operation[int]:
        def steps() -> Steps[int]:
            [[pruned]] = yield Statement("prune", {"limit": limit})
            return int(pruned)

        return Operation("prune", steps)

    # reading

    def find(self, selection: Selection, page: Page) -> Operation[list[Job]]:
        return reading("find", lambda: find(selection, page))

    def count(self, selection: Selection) -> Operation[int]:
        return reading("count", lambda: count_jobs(selection))

    def census(self, *, with_finished: bool = True, most: int | None = None) -> Operation[Census]:
        return reading("census", lambda: census(with_finished=with_finished))

    def search(self, selection: Selection, search: Search) -> Operation[Found]:
        return reading("search", lambda: find_text(selection, search))

    def failures(self, limit: int) -> Operation[list[FailureGroup]]:
        return reading("failures", lambda: failures(limit))

    def explain(self, job_id: str) -> Operation[Standing | None]:
        def steps() -> Steps[Standing | None]:
            facts = yield Statement("explain", {"id": job_id})
            return standing_of(*facts) if facts else None

        return reading("explain", steps)

    # workers

    def leave(self, worker: str) -> Operation[None]:
        def steps() -> Steps[None]:
            yield Statement("leave", {"worker": worker})

        return Operation("leave", steps)

    def workers(self) -> Operation[list[Attendance]]:
        def steps() -> Steps[list[Attendance]]:
            present = yield Statement("workers", {})
            return [
                Attendance(read_card(card, seen_at), instant(seen_at), has_lease)
                for card, seen_at, has_lease in present
            ]

        return reading("workers", steps)

    # switches

    def hold(self, switch: Switch) -> Operation[None]:
        def steps() -> Steps[None]:
            values = {
                "scope": switch.scope,
                "name": switch.name,
                "closes_at": stamp_or_false(switch.until),
                "reason": switch.reason,
            }
            yield Statement("hold", values)

        return Operation("hold", steps)

    def free(self, scope: Scope, name: str) -> Operation[bool]:
        def steps() -> Steps[bool]:
            [[freed]] = yield Statement("free", {"scope": scope, "name": name})
            return bool(freed)

        return Operation("free", steps)

    def switches(self) -> Operation[list[Switch]]:
        def steps() -> Steps[list[Switch]]:
            held = yield Statement("switches", {})
            return [_switch(*one) for one in held]

        return reading("switches", steps)

    # locks

    def grip(self, name: str, owner: str, ttl: timedelta) -> Operation[Grip | None]:
        def steps() -> Steps[Grip | None]:
            taken = yield Statement("grip", {"name": name, "owner": owner, "ttl": span(ttl)})
            return Grip(name, taken[0][0]) if taken else None

        return Operation("grip", steps)

    def keep_grip(self, grip: Grip, ttl: timedelta) -> Operation[bool]:
        def steps() -> Steps[bool]:
            [[is_ours]] = yield Statement(
                "keep_grip", {"name": grip.name, "token": grip.token, "ttl": span(ttl)}
            )
            return bool(is_ours)

        return Operation("keep_grip", steps)

    def let_go(self, grip: Grip) -> Operation[bool]:
        def steps() -> Steps[bool]:
            [[was_ours]] = yield Statement("let_go", {"name": grip.name, "token": grip.token})
            return bool(was_ours)

        return Operation("let_go", steps)

    # records

    def record(self, kind: str, name: str, text: str | None) -> Operation[None]:
        def steps() -> Steps[None]:
            yield Statement("record", {"kind": kind, "name": name, "text": False if text is None else text})

        return Operation("record", steps)

    def records(self, kind: str) -> Operation[dict[str, str]]:
        def steps() -> Steps[dict[str, str]]:
            found = yield Statement("records", {"kind": kind})
            return dict(found)

        return reading("records", steps)

    # diaries

    def jot(self, kind: str, text: str, *, keep: timedelta, number: int | None = None) -> Operation[int]:
        values = {"kind": kind, "text": text, "keep": span(keep), "number": number or False}

        def steps() -> Steps[int]:
            [[written]] = yield Statement("jot", packed(values))
            return int(written)

        return Operation("jot", steps)

    def diary(
        self, kind: str, *, limit: int, before: int | None = None, since: datetime | None = None
    ) -> Operation[list[Entry]]:
        page = {"kind": kind, "limit": limit, "before": before or False, "since": stamp_or_false(since)}

        def steps() -> Steps[list[Entry]]:
            found = yield Statement("diary", page)
            return [Entry(number, instant(at), text) for number, at, text, _ in found]

        return reading("diary", steps)


def _amended(job_id: str, took_effect: bool, reason: str, moment: int | None) -> Amended:
    words = reason if moment is None else f"{reason} {instant(moment).isoformat()}"
    return Amended(job_id, took_effect=took_effect, reason=words)


def _switch(field: str, closes_at: int | None, reason: str) -> Switch:
    scope, _, name = field.partition(":")
    return Switch(Scope(scope), name, instant_or_none(closes_at), reason)
