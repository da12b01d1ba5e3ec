"""What a reactive task declares about its table: a value that every worker can plan from.

It is stored as text, so that a worker which does not have the task's code can still plan its runs; only the
body needs code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal, TypedDict, TypeVar

from duly.durations import Duration, duration
from duly.errors import DefinitionError
from duly.job import Delivery, Keep
from duly.options import Options
from duly.reactive.tables import Table, is_django_model, keys_of, table_of, where_of

E = TypeVar("E", bound=StrEnum)

MOST_KEYS: Final = 4
GRACE: Final = timedelta(days=1)
WAITS: Final = 10
"""How many times `debounce` a row that never rests waits at most, unless `max_wait` says."""
_SPANS: Final = ("debounce", "max_wait", "cleanup_after", "keep_done", "keep_failed", "expires")


class Existing(StrEnum):
    """What becomes of rows that match when a task is first defined."""

    RUN = "run"
    IGNORE = "ignore"


class Cleaning(StrEnum):
    """When what is known of a row is forgotten."""

    DELETED = "deleted"
    DELETED_OR_UNMATCHED = "deleted_or_unmatched"
    NEVER = "never"


class Evolution(StrEnum):
    """What a higher version of the code does to rows that were dealt with by a lower one."""

    NONE = "none"
    REPROCESS_FAILED = "reprocess_failed"
    REPROCESS_ALL = "reprocess_all"


class ReactOptions(TypedDict, total=False):
    """The keywords of `@app.react(...)` beside those of a task."""

    table: Any
    key: str | Sequence[str] | None
    where: Any
    watch: Sequence[str] | None
    debounce: Duration
    max_wait: Duration | None
    existing: Literal["run", "ignore"]
    on_delete: bool
    cleanup: Literal["deleted", "deleted_or_unmatched", "never"]
    cleanup_after: Duration
    version: int
    on_version_change: Literal["none", "reprocess_failed", "reprocess_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A reactive task, as the stores know it."""

    task: str
    table: Table
    key: tuple[str, ...] | None = None
    """Columns that name a row; None means the table's primary key."""
    where: str | None = None
    watch: tuple[str, ...] | None = None
    """Columns whose change matters; None means all of them."""
    debounce: timedelta = timedelta(0)
    max_wait: timedelta = timedelta(0)
    existing: Existing = Existing.RUN
    on_delete: bool = False
    cleanup: Cleaning = Cleaning.DELETED
    cleanup_after: timedelta = GRACE
    version: int = 1
    on_version_change: Evolution = Evolution.NONE
    queue: str = "default"
    priority: int = 0
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    keep_done: timedelta = Keep().done
    keep_failed: timedelta = Keep().failed
    expires: timedelta | None = None

    @property
    def text(self) -> str:
        """As it is stored."""
        plain: dict[str, Any] = asdict(self)
        plain["table"] = list(self.table)
        for name in _SPANS:
            plain[name] = None if plain[name] is None else plain[name] / timedelta(microseconds=1)
        return json.dumps(plain, sort_keys=True, ensure_ascii=False)

    @classmethod
    def read(cls, text: str) -> Reaction:
        """From what was stored; what newer code has added is left to it."""
        stored: dict[str, Any] = json.loads(text)
        known = {field.name for field in fields(cls)}
        plain: dict[str, Any] = {name: value for name, value in stored.items() if name in known}
        for name in _SPANS:
            plain[name] = None if plain[name] is None else timedelta(microseconds=plain[name])
        plain["table"] = Table(*plain["table"])
        for name in ("key", "watch"):
            plain[name] = None if plain[name] is None else tuple(plain[name])
        for name, kind in _KINDS.items():
            plain[name] = kind(plain[name])
        return cls(**plain)

    @property
    def digest(self) -> str:
        """What the rows must be looked at again for, when it changes."""
        return fingerprint([list(self.table), self.key, self.where, self.watch])

    @property
    def mark(self) -> str:
        """What tells this declaration from any other of the same task."""
        return fingerprint(self.text)

    @property
    def keep(self) -> Keep:
        """How long its jobs stay readable."""
        return Keep(self.keep_done, self.keep_failed)


_KINDS: Final[dict[str, type[StrEnum]]] = {
    "existing": Existing,
    "cleanup": Cleaning,
    "on_version_change": Evolution,
    "delivery": Delivery,
}


def fingerprint(value: object) -> str:
    """A short name for anything that JSON can say."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# --- reading what was written ---------------------------------------------------------------------


def read_reaction(given: ReactOptions, options: Options) -> Reaction:
    """Turn what was written into types, or say which value cannot be."""
    unknown = set(given) - set(ReactOptions.__annotations__)
    if unknown:
        raise DefinitionError(
            f"@app.react has no option {sorted(unknown)[0]!r}. "
            f"Options: {', '.join(ReactOptions.__annotations__)}, and those of a task."
        )
    if "table" not in given:
        raise DefinitionError(f"Task {options.name}: say which table to follow: @app.react(table='orders').")
    reaction = Reaction(
        task=options.name,
        table=table_of(given["table"]),
        key=_key(given),
        where=where_of(given.get("where"), given["table"]),
        watch=_watch(given.get("watch")),
        debounce=duration(given.get("debounce", 0), what="debounce"),
        existing=_choice(Existing, given.get("existing", "run"), "existing"),
        on_delete=given.get("on_delete", False) is True,
        cleanup=_choice(Cleaning, given.get("cleanup", "deleted"), "cleanup"),
        cleanup_after=duration(given.get("cleanup_after", GRACE), what="cleanup_after"),
        version=_version(given.get("version", 1)),
        on_version_change=_choice(Evolution, given.get("on_version_change", "none"), "on_version_change"),
        queue=options.queue_name,
        priority=options.priority,
        delivery=options.delivery,
        keep_done=options.keep.done,
        keep_failed=options.keep.failed,
        expires=options.expires,
    )
    return replace(reaction, max_wait=_max_wait(given.get("max_wait"), reaction.debounce))


def _key(given: ReactOptions) -> tuple[str, ...] | None:
    key = given.get("key")
    if key is None:
        return _primary_key(given.get("table"))
    names = keys_of(key)
    if len(names) > MOST_KEYS:
        raise DefinitionError(f"key is {key!r}; at most {MOST_KEYS} columns can name a row.")
    return names


def _primary_key(table: Any) -> tuple[str, ...] | None:
    """What a framework knows of it; else the database is asked when a worker starts."""
    if is_django_model(table):
        return (table._meta.pk.column,)
    columns = getattr(getattr(table, "__table__", table), "primary_key", None)
    return None if columns is None else tuple(column.name for column in columns) or None


def _watch(given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise DefinitionError(f"watch is {given!r}; it takes a list of column names: [{given!r}].")
    names = keys_of(given, what="watch") if given else ()
    return tuple(dict.fromkeys(names))


def _max_wait(given: Duration | None, debounce: timedelta) -> timedelta:
    longest = debounce * WAITS if given is None else duration(given, what="max_wait")
    if longest < debounce:
        raise DefinitionError(f"max_wait is {longest}, shorter than debounce {debounce}: swap them.")
    return longest


def _version(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise DefinitionError(f"version is {given!r}; it takes a whole number of at least 1.")
    return given


def _choice(kind: type[E], value: object, what: str) -> E:
    try:
        return kind(str(value))
    except ValueError:
        offered = ", ".join(repr(str(member)) for member in kind)
        raise DefinitionError(f"{what} is {value!r}; it takes one of {offered}.") from None


# --- two versions of the code at once -------------------------------------------------------------

SILENCE: Final = timedelta(minutes=5)
"""How long nobody may have spoken for the definition in force before an older one counts again."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The definition that the store plans by."""

    mark: str
    version: int
    silent_for: timedelta
    """How long ago a worker with this very definition was last heard of."""


def is_adopted(offered: Reaction, in_force: InForce | None, *, is_new: bool) -> bool:
    """Whether what a worker brings takes the place of what is in force.

    During a deploy both are brought again and again: the newer one must win once and stay. `is_new` says
    that no worker ever brought this one before.
    """
    if in_force is None:
        return True
    if offered.mark == in_force.mark:
        return False
    if offered.version > in_force.version:
        return True
    return (is_new and offered.version == in_force.version) or in_force.silent_for > SILENCE
