"""A request as it travels in a Celery message: plain JSON, whatever serialiser Celery uses."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from duly.job import Claim, Request
from duly.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One request and the tries so far."""

    id: str
    arguments: str
    """Packed by Duly's codec: types survive that JSON alone would lose."""
    due: str
    key: str | None = None
    context: str = "{}"
    is_trailing: bool = False
    """The newest arguments may have changed since it was sent."""
    attempt: int = 0
    deferrals: int = 0
    first_failure: str | None = None

    @classmethod
    def of(cls, request: Request, now: datetime, *, is_trailing: bool = False) -> Packet:
        """A request that is about to be sent for the first time."""
        return cls(
            id=request.id,
            arguments=request.arguments,
            due=(request.run_after or now).isoformat(),
            key=request.key,
            context=request.context,
            is_trailing=is_trailing,
        )

    @classmethod
    def read(cls, message: dict[str, Any], message_id: str) -> Packet:
        """Words that newer code added are left alone. What beat sends has no id but that of its message."""
        known: dict[str, Any] = {word: value for word, value in message.items() if word in cls.__slots__}
        known["id"] = known.get("id") or message_id
        return cls(**known)

    def written(self) -> dict[str, Any]:
        """As a message."""
        return asdict(self)

    def shown(self, options: Options) -> str:
        """What Celery's events and logs may say about the arguments."""
        return "…" if options.redact else self.arguments

    def failed(self, now: datetime) -> Packet:
        """The next try after a failure."""
        return replace(self, attempt=self.attempt + 1, first_failure=self.first_failure or now.isoformat())

    def deferred(self) -> Packet:
        """The same try, later."""
        return replace(self, deferrals=self.deferrals + 1)

    @property
    def start(self) -> str:
        """One try, however often it is delivered."""
        return f"{self.id}:{self.attempt}:{self.deferrals}"

    def claim(self, options: Options, *, starts: int) -> Claim:
        """What a run is made from; the epoch rises with every delivery that was counted."""
        return Claim(
            id=self.id,
            epoch=self.attempt + self.deferrals + starts,
            nonce="",
            task=options.name,
            queue=options.queue_name,
            key=self.key,
            generation=0,
            arguments=self.arguments,
            attempt=self.attempt,
            crashes=max(0, starts - 1),
            deferrals=self.deferrals,
            cycle=0,
            is_suspect=starts > 1,
            due=datetime.fromisoformat(self.due),
            tick=None,
            first_failure=None if self.first_failure is None else datetime.fromisoformat(self.first_failure),
            context=self.context,
        )
