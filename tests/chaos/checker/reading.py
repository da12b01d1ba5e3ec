"""From files to a history. A line that a kill cut short is the last of its file and is left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tests.chaos.checker.history import (
    NEVER,
    Asked,
    Body,
    Effect,
    Ending,
    Fault,
    Grip,
    HandBack,
    History,
    Life,
    Loan,
    Mark,
    Orphan,
    Renewal,
    Row,
    Settle,
    TaskTerms,
    Terms,
    Vitals,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


class Line(NamedTuple):
    """One event as it was written."""

    process: str
    at: float
    kind: str
    words: dict[str, Any]


def read(folder: Path) -> History:
    """The history of a run, from its folder."""
    lines = sorted(
        (line for path in folder.glob("*.jsonl") for line in _lines(path)), key=lambda line: line.at
    )
    return assemble(lines)


def _lines(path: Path) -> Iterator[Line]:
    process = path.name.split(".")[0]
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            words: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError:
            continue
        yield Line(process, words.pop("at"), words.pop("kind"), words)


def assemble(lines: Iterable[Line]) -> History:
    """Put calls and answers together; what has no answer stays unknown."""
    builder = Builder()
    for line in lines:
        reader = getattr(builder, f"read_{line.kind}", None)
        if reader is not None:
            reader(line)
    return builder.history()


class Builder:
    """Remembers open calls until their answers come."""

    def __init__(self) -> None:
        self._history = History(is_complete=False)
        self._asked: dict[str, Asked] = {}
        self._endings: dict[str, Ending] = {}
        self._settles: dict[str, list[Settle]] = {}
        self._bodies: dict[tuple[str, int, int], Body] = {}
        self._lives: dict[str, Life] = {}
        self._grips: dict[tuple[str, int], Grip] = {}
        self._open_faults: list[Fault] = []

    def history(self) -> History:
        history = self._history
        history.asked = sorted(self._asked.values(), key=lambda asked: asked.called)
        history.endings = list(self._endings.values())
        history.settles = [settle for batch in self._settles.values() for settle in batch]
        history.settles.sort(key=lambda settle: settle.called)
        history.loans.sort(key=lambda loan: loan.answered)
        history.bodies = sorted(self._bodies.values(), key=lambda body: body.started)
        history.lives = list(self._lives.values())
        history.grips = sorted(self._grips.values(), key=lambda grip: grip.held)
        return history

    # the head

    def read_conditions(self, line: Line) -> None:
        known = Terms.__dataclass_fields__
        self._history.terms = Terms(**{word: line.words[word] for word in line.words if word in known})

    def read_tasks(self, line: Line) -> None:
        for name, words in line.words["tasks"].items():
            if words["rate"] is not None:
                words["rate"] = tuple(words["rate"])
            self._history.tasks[name] = TaskTerms(**words)

    def read_stage(self, line: Line) -> None:
        if line.words["name"] == "quiet":
            self._history.quiet_at = line.at
        elif line.words["name"] == "drain":
            self._history.drained_at = line.at
            self._history.drained_wall = line.words["wall"]

    # callers

    def read_enqueue(self, line: Line) -> None:
        words = line.words
        wishes = words.get("wishes", {})
        after = wishes.get("run_after")
        self._note(
            line,
            Asked(
                op=words["op"],
                task=words["task"],
                key=wishes.get("key"),
                digest=words["digest"],
                called=line.at,
                replaces=bool(wishes.get("replace")),
                delay=float(after) if after is not None else 0.0,
                in_transaction=bool(words.get("in_transaction")),
                is_acknowledged=False,
            ),
        )

    def read_cancel(self, line: Line) -> None:
        self._note_order(line)

    def read_retry(self, line: Line) -> None:
        self._note_order(line)

    def _note_order(self, line: Line) -> None:
        words = line.words
        called = Asked(op=words["op"], kind=line.kind, id=words["id"], called=line.at, is_acknowledged=False)
        self._note(line, called)

    def _note(self, line: Line, called: Asked) -> None:
        number, phase = line.words["call"], line.words["phase"]
        if phase == "call":
            self._asked[number] = called
        elif phase == "ok":
            self._asked[number] = self._answered(self._asked[number], line)

    def _answered(self, asked: Asked, line: Line) -> Asked:
        words = line.words
        changes = {
            "id": words.get("id"),
            "generation": words.get("generation", 0),
            "decision": words.get("decision", "created"),
            "took_effect": words.get("took_effect", True),
        }
        return _with(asked, answered=line.at, is_acknowledged=True, **changes)

    def read_tx(self, line: Line) -> None:
        op = line.words["op"]
        if line.words["phase"] == "call":
            self._endings[op] = Ending(
                op=op, commits=line.words["commits"], called=line.at, is_acknowledged=False
            )
        elif line.words["phase"] == "ok":
            self._endings[op] = _with(self._endings[op], is_acknowledged=True)

    # workers

    def read_claim(self, line: Line) -> None:
        for claim in line.words["claims"]:
            job, epoch, nonce = claim["fence"]
            known = {name: claim[name] for name in LOAN_WORDS}
            self._history.loans.append(
                Loan(
                    id=job,
                    epoch=epoch,
                    nonce=nonce,
                    worker=line.process,
                    called=line.words["called"],
                    answered=line.at,
                    now=line.words["now"],
                    **known,
                )
            )
        self._history.contacts.append((line.at, line.process))

    def read_contact(self, line: Line) -> None:
        self._history.contacts.append((line.at, line.process))
        if line.words["leaves_nothing"]:
            self._history.looks.append(line.words["called"])

    def read_settle(self, line: Line) -> None:
        number = line.words["call"]
        if line.words["phase"] == "call":
            self._settles[number] = [_settle(line, end) for end in line.words["ends"]]
            return
        answers = line.words["answers"]
        self._settles[number] = [
            _with(settle, answer=answer, answered=line.at)
            for settle, answer in zip(self._settles[number], answers, strict=True)
        ]
        self._history.contacts.append((line.at, line.process))

    def read_renew(self, line: Line) -> None:
        words = line.words
        self._history.renewals.append(
            Renewal(
                worker=line.process,
                called=words["called"],
                answered=line.at,
                phase=words["phase"],
                fences=_marks(words["fences"]),
                lost=_marks(words.get("lost", [])),
            )
        )
        if words["phase"] == "ok":
            self._history.contacts.append((line.at, line.process))

    def read_disown(self, line: Line) -> None:
        if line.words["phase"] == "call":
            spares = _marks(line.words["held"])
            self._history.hand_backs.append(HandBack(worker=line.process, called=line.at, spares=spares))

    def read_leave(self, line: Line) -> None:
        if line.words["phase"] == "call":
            self._history.hand_backs.append(HandBack(worker=line.process, called=line.at))

    # bodies

    def read_start(self, line: Line) -> None:
        words = line.words
        known = {name: words[name] for name in BODY_WORDS}
        self._bodies[words["id"], words["epoch"], words["pid"]] = Body(
            worker=line.process, pid=words["pid"], started=line.at, last_sign=line.at, **known
        )

    def read_alive(self, line: Line) -> None:
        body = self._body(line)
        if body is not None:
            body.last_sign = line.at

    def read_end(self, line: Line) -> None:
        body = self._body(line)
        if body is not None:
            body.last_sign = body.ended = line.at
            body.outcome = line.words["outcome"]

    def _body(self, line: Line) -> Body | None:
        return self._bodies.get((line.words["id"], line.words["epoch"], line.words["pid"]))

    def read_grip(self, line: Line) -> None:
        words = line.words
        grip = Grip(name=words["name"], token=words["token"], asked=words["asked"], held=line.at)
        self._grips[grip.name, grip.token] = grip

    def read_letting_go(self, line: Line) -> None:
        mark = line.words["name"], line.words["token"]
        self._grips[mark] = _with(self._grips[mark], letting_go=line.at)

    # the runner

    def read_fault(self, line: Line) -> None:
        words = line.words
        if words["phase"] == "end":
            self._history.faults.append(
                Fault(kind=words["what"], begun=words["begun"], ended=line.at, target=words["target"])
            )

    def read_clock(self, line: Line) -> None:
        if self._history.terms.store == "sqlite":
            self._history.steps.append(line.at)

    def read_lag(self, line: Line) -> None:
        self._history.lags.append((line.at, line.words["seconds"]))

    def read_spawn(self, line: Line) -> None:
        name = line.words["who"]
        self._lives[name] = Life(name=name, pid=line.words["target"], born=line.at)

    def read_born(self, line: Line) -> None:
        """A process that is long in coming tells how starved the machine is."""
        life = self._lives.get(line.process)
        late = 0.0 if life is None else line.at - life.born - START_UP
        if late > 0:
            self._history.lags.append((line.at, late))

    def read_death(self, line: Line) -> None:
        name = line.words["who"]
        self._lives[name] = _with(self._lives[name], died=line.at, code=line.words["code"])

    def read_orphan(self, line: Line) -> None:
        words = line.words
        self._history.orphans.append(
            Orphan(
                worker=words["who"],
                pid=words["target"],
                seen=line.at,
                since=words["since"],
                state=words["state"],
            )
        )

    def read_vitals(self, line: Line) -> None:
        words = line.words
        seen = Vitals(worker=words["who"], descriptors=words["descriptors"], threads=words["threads"])
        self._history.vitals.append(seen)

    def read_state(self, line: Line) -> None:
        known = {name: value for name, value in line.words.items() if name in Row.__dataclass_fields__}
        rows = self._history.first if line.words["dump"] == "first" else self._history.last
        rows.append(Row(**known))

    def read_dump(self, line: Line) -> None:
        if line.words["phase"] == "end" and line.words["name"] == "last":
            self._history.is_complete = True
            orders, effects = line.words.get("orders"), line.words.get("effects")
            self._history.orders = None if orders is None else frozenset(op for (op,) in orders)
            self._history.effects = (
                None
                if effects is None
                else [Effect(token=token, op=op, epoch=epoch) for token, op, epoch in effects]
            )


START_UP = 0.5
"""What a Python process and its imports take on a machine that has time for it."""
LOAN_WORDS = (
    "task",
    "queue",
    "key",
    "generation",
    "due",
    "attempt",
    "crashes",
    "deferrals",
    "cycle",
    "tick",
)
BODY_WORDS = ("id", "epoch", "task", "key", "generation", "op", "digest", "attempt", "tick", "token")


def _settle(line: Line, end: dict[str, Any]) -> Settle:
    job, epoch, _ = end["fence"]
    return Settle(
        id=job,
        epoch=epoch,
        worker=line.process,
        verdict=end["verdict"],
        answer="unknown",
        called=line.at,
        answered=NEVER,
        after=end["after"],
        is_counted=end["counted"],
    )


def _marks(fences: Iterable[Any]) -> frozenset[Mark]:
    return frozenset(Mark(job, epoch) for job, epoch, _ in fences)


def _with(record: R, **changes: Any) -> R:
    return replace(record, **changes)
