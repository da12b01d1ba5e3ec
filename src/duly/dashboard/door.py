"""Who may come in, and what they may do.

Nobody, unless a token or the host application's login says so. A session is a signed text, not a row: every
process that knows the tokens knows the sessions, and a changed token ends them all.
"""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from duly.errors import DefinitionError

SESSION: Final = timedelta(hours=12)
SHORTEST_TOKEN: Final = 16
"""Characters: a token is guessed by nobody who may try ten times a minute."""

TRIES: Final = 10
PERIOD: Final = timedelta(minutes=1)
REMEMBERED: Final = 10_000
"""Addresses whose failures are counted; a flood of addresses must not fill the memory."""


class Role(StrEnum):
    """What a visitor may do."""

    VIEWER = "viewer"
    """Look."""
    OPERATOR = "operator"
    """Look and act."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who was let in: the name goes to the audit log."""

    name: str
    role: Role = Role.VIEWER

    @property
    def may_act(self) -> bool:
        """Whether orders are taken from them."""
        return self.role is Role.OPERATOR


Authenticate = Callable[[Any], "Visitor | Awaitable[Visitor | None] | None"]
"""The host application's login: a request to a visitor, or None for a stranger."""


class Door:
    """Tokens, and the sessions opened with them."""

    def __init__(self, *, token: str | None, viewer_token: str | None) -> None:
        given = {Role.OPERATOR: token, Role.VIEWER: viewer_token}
        self._tokens = {role: checked(text) for role, text in given.items() if text is not None}
        if len(set(self._tokens.values())) < len(self._tokens):
            raise DefinitionError("Viewers and operators have the same token: give each role its own.")
        self._key = sha256("\0".join(["duly session", *self._tokens.values()]).encode()).digest()

    @property
    def has_tokens(self) -> bool:
        """Whether anybody can sign in here, and not only by the host's login."""
        return bool(self._tokens)

    def recognise(self, token: str) -> Visitor | None:
        """Whose token it is. Every token is compared in full, so that the time taken tells nothing."""
        given = sha256(token.encode()).digest()
        found = [
            role
            for role, known in self._tokens.items()
            if hmac.compare_digest(sha256(known.encode()).digest(), given)
        ]
        return Visitor(str(found[0]), found[0]) if found else None

    def open_session(self, visitor: Visitor, now: datetime) -> str:
        """A text that proves until its end who signed in."""
        facts = [visitor.name, str(visitor.role), (now + SESSION).isoformat(), secrets.token_hex(8)]
        text = urlsafe_b64encode(json.dumps(facts).encode()).decode()
        return f"{text}.{self._sign(text)}"

    def read_session(self, session: str, now: datetime) -> Visitor | None:
        """The visitor, if the session is ours and not over."""
        text, _, signature = session.partition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode()):
            return None
        name, role, ends_at, _ = json.loads(urlsafe_b64decode(text))
        return Visitor(name, Role(role)) if now < datetime.fromisoformat(ends_at) else None

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


def checked(token: str) -> str:
    """A token that is worth having."""
    if len(token) < SHORTEST_TOKEN:
        raise DefinitionError(
            f"The dashboard's token has {len(token)} characters; give it at least {SHORTEST_TOKEN}, such as "
            f"{secrets.token_urlsafe(24)!r}."
        )
    return token


class Patience:
    """Counts failed tries by address; who fails too often waits."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._failures: OrderedDict[str, list[datetime]] = OrderedDict()

    def wait(self, address: str) -> timedelta:
        """How long this address must wait before its next try; zero if it need not."""
        recent = self._recent(address)
        return recent[0] + PERIOD - self._now() if len(recent) >= TRIES else timedelta(0)

    def note_failure(self, address: str) -> None:
        """One more failed try."""
        self._failures[address] = [*self._recent(address), self._now()][-TRIES:]
        self._failures.move_to_end(address)
        while len(self._failures) > REMEMBERED:
            self._failures.popitem(last=False)

    def forgive(self, address: str) -> None:
        """A good token clears the slate."""
        self._failures.pop(address, None)

    def _recent(self, address: str) -> list[datetime]:
        now = self._now()
        return [at for at in self._failures.get(address, []) if now - at < PERIOD]
