"""Who may come in, and what they may do.

Nobody, unless a token or the host application's login says so. A session is a signed text, not a row: every
process that knows the token knows the sessions opened with it, and a changed token ends them.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import scrypt, sha256
from typing import Any, Final, NamedTuple, TypeVar

from duly.errors import DefinitionError

T = TypeVar("T")

SESSION: Final = timedelta(hours=12)
SHORTEST_TOKEN: Final = 16
"""Characters: a token is guessed by nobody who may try ten times a minute."""

TRIES: Final = 10
PERIOD: Final = timedelta(minutes=1)
TOGETHER: Final = 300
"""Failed tries in a period from all addresses that never showed a right token."""
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


class Session(NamedTuple):
    """Somebody who signed in, and how this time is told from others."""

    visitor: Visitor
    id: str


class Door:
    """Tokens, and the sessions opened with them."""

    def __init__(self, *, token: str | None, viewer_token: str | None) -> None:
        given = {Role.OPERATOR: token, Role.VIEWER: viewer_token}
        self._tokens = {role: checked(text.strip()) for role, text in given.items() if text is not None}
        if len(set(self._tokens.values())) < len(self._tokens):
            raise DefinitionError("Viewers and operators have the same token: give each role its own.")

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
        facts = [visitor.name, (now + SESSION).isoformat(), secrets.token_hex(8)]
        text = urlsafe_b64encode(json.dumps(facts).encode()).decode()
        return f"{text}.{_signed(self._tokens[visitor.role], text)}"

    def read_session(self, text: str, now: datetime) -> Session | None:
        """Who it is, if the session is ours and not over. The role is told by whose token signed it."""
        facts, _, signature = text.partition(".")
        for role, token in self._tokens.items():
            if hmac.compare_digest(_signed(token, facts).encode(), signature.encode()):
                name, ends_at, number = json.loads(urlsafe_b64decode(facts))
                is_over = now >= datetime.fromisoformat(ends_at)
                return None if is_over else Session(Visitor(name, role), number)
        return None


def _signed(token: str, text: str) -> str:
    return hmac.new(_key(token), text.encode(), sha256).hexdigest()


@lru_cache(maxsize=1024)
def _key(token: str) -> bytes:
    """What signs the sessions of one token: slow to make, or who has a session could try tokens at leisure.

    Of that token alone, so that a viewer's session tells nothing of the operators' token.
    """
    return scrypt(token.encode(), salt=b"duly session", n=2**14, r=8, p=1)


def checked(token: str) -> str:
    """A token that is worth having."""
    if len(token) < SHORTEST_TOKEN:
        raise DefinitionError(
            f"The dashboard's token has {len(token)} characters; give it at least {SHORTEST_TOKEN}, such as "
            f"{secrets.token_urlsafe(24)!r}."
        )
    return token


class Patience:
    """Counts failed tries by address, and together those of strangers; who fails too often waits.

    Strangers who try from everywhere make other strangers wait, and nobody who has been here: an address from
    which a right token came waits for its own failures alone. A right token wipes out none of them, or
    a viewer could go on guessing the operators' token for ever.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._failures: OrderedDict[str, deque[datetime]] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._together: deque[datetime] = deque(maxlen=TOGETHER)

    def __len__(self) -> int:
        """Addresses that are remembered for their failures."""
        return len(self._failures)

    def wait(self, address: str) -> timedelta:
        """How long this address must wait before its next try; zero if it need not."""
        place = neighbourhood(address)
        own = self._left(self._failures.get(place), TRIES)
        return own if own or place in self._known else self._left(self._together, TOGETHER)

    def note_failure(self, address: str) -> None:
        """One more failed try."""
        place, now = neighbourhood(address), self._now()
        _freshened(self._failures, place, self._failures.get(place) or deque(maxlen=TRIES)).append(now)
        if place not in self._known:
            self._together.append(now)

    def note_success(self, address: str) -> None:
        """A right token came from there."""
        _freshened(self._known, neighbourhood(address), None)

    def _left(self, tries: deque[datetime] | None, most: int) -> timedelta:
        if not tries or len(tries) < most:
            return timedelta(0)
        return max(timedelta(0), tries[0] + PERIOD - self._now())


def _freshened(kept: OrderedDict[str, T], place: str, value: T) -> T:
    """Written as the newest; the oldest are forgotten when there are too many."""
    kept[place] = value
    kept.move_to_end(place)
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)
    return value


def neighbourhood(address: str) -> str:
    """What counts as one address: of IPv6 a network of 64 bits, in which anybody has as many as they like."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
