"""events: who hears of what, and what is made for nobody."""

from __future__ import annotations

from duly.events import Event, Events


def event(kind: str) -> Event:
    return Event(kind, "mail", "1", None, 1, 1, None, "")


def test_a_listener_hears_of_the_kinds_it_wants() -> None:
    heard: list[str] = []
    events = Events()
    events.subscribe(lambda told: heard.append(told.kind), wants=lambda kind: kind == "fail")

    for kind in ("done", "fail"):
        events.emit(event(kind))

    assert heard == ["fail"]
    assert events.hears("fail")
    assert not events.hears("done")


def test_a_kind_is_heard_of_while_somebody_wants_it() -> None:
    events = Events()
    events.subscribe(lambda told: None, wants=lambda kind: False)
    stop = events.subscribe(lambda told: None)

    assert events.hears("done")
    stop()
    assert not events.hears("done")


def test_a_listener_that_fails_costs_nobody_else() -> None:
    heard: list[str] = []
    events = Events()
    events.subscribe(lambda told: heard.remove(told.kind))
    events.subscribe(lambda told: heard.append(told.kind))

    events.emit(event("done"))

    assert heard == ["done"]


def test_one_that_cannot_say_what_it_wants_costs_nobody_else() -> None:
    events, heard = Events(), list[str]()

    def wants(kind: str) -> bool:
        raise ValueError(kind)

    events.subscribe(lambda _event: None, wants=wants)
    events.subscribe(lambda told: heard.append(told.kind))

    is_heard = events.hears("done")
    events.emit(event("done"))

    assert (is_heard, heard) == (True, ["done"])
