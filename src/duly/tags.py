"""The values JSON lacks: how each is tagged in stored text, and how it comes back.

Each tag has a writer and a reader, next to each other. Reading runs no code that the text chooses:
nothing is imported, no constructor of a class is called, and a class is only found in a module that the
program has already loaded.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from functools import cached_property
from math import isfinite
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from duly.errors import Undecodable, Unserialisable
from duly.homes import home_of, module_at

Tagged: TypeAlias = dict[str, Any]

_T = TypeVar("_T")
_DEEPEST: Final = 100
_LARGE: Final = 1 << 2048
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_KNOWN: dict[str, type] = {}
_UNSET: Final = object()  # is refused like any other object


class Place:
    """Where a value sits among the arguments, written out only when it is refused."""

    __slots__ = ("_container", "_outer", "_step", "depth")

    def __init__(self, outer: Place | str, step: int | str | None = None, container: object = None) -> None:
        self._outer = outer
        self._step = step
        self._container = container
        self.depth: int = outer.depth + 1 if isinstance(outer, Place) else 0

    def __str__(self) -> str:
        if self._step is None:
            return str(self._outer)
        if isinstance(self._step, str) and self._step.startswith("."):
            return f"{self._outer}{self._step}"
        return f"{self._outer}[{json.dumps(self._step)}]"

    def open(self, container: object) -> None:
        """Refuse a container that would never end."""
        if self.depth >= _DEEPEST:
            self.refuse(
                container, f"It is nested more than {_DEEPEST} levels deep. Pass it in a flatter form."
            )
        place: Place | str = self
        while isinstance(place, Place):
            if place._container is container:
                self.refuse(
                    f"{type(container).__name__} …", "It contains itself. Pass its parts by id instead."
                )
            place = place._outer

    def refuse(self, value: object, remedy: str) -> NoReturn:
        raise Unserialisable(str(self), value, remedy)


def register(kind: type, path: str) -> None:
    """Let values stored as `path` ("module:Class") come back as `kind`: for a class that was moved."""
    _KNOWN[path] = kind


def write(value: object, place: Place) -> Any:
    """`value` in terms of JSON, or Unserialisable."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value, place)
    if isinstance(value, Enum):
        return _write_enum(value, place)
    if is_dataclass(value) and not isinstance(value, (type, BaseException, *_ROOTS)):
        return _write_dataclass(value, place)
    return place.refuse(value, _remedy(value))


def write_dict(value: dict[str, Any], place: Place | str) -> Any:
    """A dict; as pairs if it has a "$" of its own."""
    if isinstance(place, Place):
        place.open(value)
    pairs = [(_key(key, value, place), write(each, Place(place, key, value))) for key, each in value.items()]
    return {"$": "dict", "v": pairs} if "$" in value else dict(pairs)


def revive(found: Tagged) -> Any:
    """What an object in stored text stands for: itself, or what its tag says."""
    if "$" not in found:
        return found
    tag: object = found["$"]
    reader = _READERS.get(tag) if isinstance(tag, str) else None
    if reader is None:
        raise Undecodable(f"it has the unknown tag {tag!r}. A newer version may have written it.")
    try:
        return reader(found)
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as complaint:
        raise Undecodable(f"a {tag} in it is damaged: {complaint}.") from None


def _key(key: object, container: object, place: Place | str) -> str:
    if type(key) is not str:
        Place(place, str(key), container).refuse(key, "Keys must be str. Pass a list of pairs instead.")
    return _write_text(key, Place(place, key, container))


def _write_text(value: str, place: Place) -> str:
    if "\0" in value:
        place.refuse(value, "Not every store keeps NUL characters. Remove them, or pass bytes.")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            place.refuse(value, "It has half of a surrogate pair. Decode it properly, or pass bytes.")
    return value


def _write_int(value: int, _place: Place) -> int | Tagged:
    return value if -_LARGE < value < _LARGE else {"$": "int", "v": hex(value)}


def _read_int(found: Tagged) -> int:
    return int(_part(found, "v", str), 16)


def _write_float(value: float, place: Place) -> float:
    return value if isfinite(value) else place.refuse(value, "It is not a finite number. Pass None instead.")


def _write_items(value: Iterable[Any], place: Place) -> list[Any]:
    place.open(value)
    return [write(each, Place(place, index, value)) for index, each in enumerate(value)]


def _write_tuple(value: tuple[Any, ...], place: Place) -> Tagged:
    return {"$": "tuple", "v": _write_items(value, place)}


def _write_set(value: set[Any] | frozenset[Any], place: Place) -> Tagged:
    # Sorted, so that equal sets have equal texts whatever the hash seed of the process.
    return {"$": type(value).__name__, "v": sorted(_write_items(value, place), key=json.dumps)}


def _read_dict(found: Tagged) -> dict[str, Any]:
    return {_typed(key, str): value for key, value in _items(found)}


def _write_moment(value: datetime | time, place: Place) -> Tagged:
    zone = value.tzinfo
    written: Tagged = {"$": type(value).__name__, "v": value.isoformat()}
    if type(zone) is ZoneInfo and zone.key is not None:
        written |= {"v": value.replace(tzinfo=None).isoformat(), "zone": zone.key}
    elif zone is not None and not _is_plain_offset(zone):
        place.refuse(value, f"Its {type(zone).__name__} has no name to store. Use zoneinfo.ZoneInfo or UTC.")
    return written | {"fold": 1} if value.fold else written


def _is_plain_offset(zone: object) -> bool:
    if type(zone) is not timezone:
        return False
    offset = zone.utcoffset(None)
    # Python reads an offset of less than a second back as zero.
    return not offset.microseconds and zone.tzname(None) == timezone(offset).tzname(None)


def _read_datetime(found: Tagged) -> datetime:
    value = datetime.fromisoformat(_part(found, "v", str)).replace(fold=found.get("fold", 0))
    return value.replace(tzinfo=_read_zone(found)) if "zone" in found else value


def _read_time(found: Tagged) -> time:
    value = time.fromisoformat(_part(found, "v", str)).replace(fold=found.get("fold", 0))
    return value.replace(tzinfo=_read_zone(found)) if "zone" in found else value


def _read_zone(found: Tagged) -> ZoneInfo:
    name = _part(found, "zone", str)
    if not _ZONE.fullmatch(name):
        raise ValueError(f"{name!r} is no time zone")
    return ZoneInfo(name)


def _write_date(value: date, _place: Place) -> Tagged:
    return {"$": "date", "v": value.isoformat()}


def _read_date(found: Tagged) -> date:
    return date.fromisoformat(_part(found, "v", str))


def _write_timedelta(value: timedelta, _place: Place) -> Tagged:
    return {"$": "timedelta", "v": [value.days, value.seconds, value.microseconds]}


def _read_timedelta(found: Tagged) -> timedelta:
    days, seconds, microseconds = (_typed(part, int) for part in _items(found))
    return timedelta(days, seconds, microseconds)


def _write_decimal(value: Decimal, place: Place) -> Tagged:
    if not value.is_finite():
        place.refuse(value, "It is not a finite number. Pass None instead.")
    return {"$": "decimal", "v": str(value)}


def _read_decimal(found: Tagged) -> Decimal:
    return Decimal(_part(found, "v", str))


def _write_uuid(value: UUID, _place: Place) -> Tagged:
    return {"$": "uuid", "v": value.hex}


def _read_uuid(found: Tagged) -> UUID:
    return UUID(_part(found, "v", str))


def _write_bytes(value: bytes, _place: Place) -> Tagged:
    return {"$": "bytes", "v": b64encode(value).decode("ascii")}


def _read_bytes(found: Tagged) -> bytes:
    return b64decode(_part(found, "v", str), validate=True)


def _write_enum(value: Enum, place: Place) -> Tagged:
    # A combination of flags has no name of its own.
    by = {"value": value.value} if isinstance(value, Flag) else {"name": value.name}
    return {"$": "enum", "type": _path_of(value, place)} | by


def _read_enum(found: Tagged) -> Enum:
    kind = _find(_part(found, "type", str))
    if not issubclass(kind, Enum):
        raise TypeError(f"{kind.__qualname__} is no Enum here")
    return kind(_part(found, "value", int)) if issubclass(kind, Flag) else kind.__members__[found["name"]]


def _write_dataclass(value: Any, place: Place) -> Tagged:
    place.open(value)
    path = _path_of(value, place)
    names = [field.name for field in fields(value)]
    for extra in _own_names(value) - set(names):
        Place(place, f".{extra}", value).refuse(
            getattr(value, extra), "It is not a field, so it would be lost. Make it a field(init=False)."
        )
    written = {name: write(getattr(value, name, _UNSET), Place(place, f".{name}", value)) for name in names}
    return {"$": "dataclass", "type": path, "v": written}


def _own_names(value: object) -> set[str]:
    """What the instance carries, without what it can compute again."""
    own = cast(dict[str, object], getattr(value, "__dict__", {}))
    return {name for name in own if not isinstance(getattr(type(value), name, None), cached_property)}


def _read_dataclass(found: Tagged) -> Any:
    kind = _find(_part(found, "type", str))
    if not is_dataclass(kind):
        raise TypeError(f"{found['type']} is no dataclass here")
    stored = cast(dict[str, Any], _part(found, "v", dict))
    unknown = stored.keys() - {field.name for field in fields(kind)}
    if unknown:
        raise ValueError(f"{found['type']} has no field {min(unknown)!r} any more")
    value: object = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(value, field.name, stored[field.name] if field.name in stored else _default(field))
    return value


def _default(field: Any) -> Any:
    """For a field that was added to the class after the value was stored."""
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise ValueError(f"it lacks the field {field.name!r}, which has no default")


def _path_of(value: object, place: Place) -> str:
    kind = type(value)
    if _lookup(sys.modules.get(kind.__module__), kind.__qualname__) is not kind:
        place.refuse(value, f"{kind.__qualname__} cannot be found again. Define it at the top of a module.")
    return f"{home_of(kind.__module__)}:{kind.__qualname__}"


def _find(path: str) -> type:
    if path in _KNOWN:
        return _KNOWN[path]
    module, _, name = path.partition(":")
    home = module_at(module)
    if home is None:
        raise Undecodable(
            f"it holds a {path}, but {module} is not loaded. Import it where the worker starts."
        )
    kind = _lookup(home, name)
    if not isinstance(kind, type):
        raise Undecodable(f"it holds a {path}, but {module} has no such class. If it was moved, register it.")
    return kind


def _lookup(module: ModuleType | None, name: str) -> object:
    """What `name` is in `module`, by looking into dictionaries only: getattr could run code or import."""
    found: object = module
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found


def _items(found: Tagged) -> list[Any]:
    return cast(list[object], _part(found, "v", list))


def _part(found: Tagged, name: str, kind: type[_T]) -> _T:
    return _typed(found[name], kind)


def _typed(value: object, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _remedy(value: object) -> str:
    kind = type(value)
    if isinstance(value, PurePath):
        return "Pass str(path)."
    if isinstance(value, (bytearray, memoryview)):
        return "Pass bytes(value)."
    for root in _ROOTS:
        if isinstance(value, root):
            return (
                f"It would come back as a plain {root.__name__}. Pass {root.__name__}(value), or a dataclass."
            )
    if hasattr(kind, "_meta") or hasattr(kind, "__table__"):
        return "Pass its primary key and load it inside the task."
    return (
        "Pass an id and load it inside the task, or plain values: None, bool, int, float, str, bytes, list, "
        "dict, tuple, set, datetime, date, time, timedelta, Decimal, UUID, an Enum or a dataclass."
    )


_ROOTS: Final = (
    str, int, float, bytes, list, dict, tuple, set, frozenset, datetime, date, time, timedelta, Decimal, UUID
)  # fmt: skip

_WRITERS: Final[dict[type, Callable[[Any, Place], Any]]] = {
    type(None): lambda value, _place: value,
    bool: lambda value, _place: value,
    int: _write_int,
    float: _write_float,
    str: _write_text,
    list: _write_items,
    dict: write_dict,
    tuple: _write_tuple,
    set: _write_set,
    frozenset: _write_set,
    datetime: _write_moment,
    time: _write_moment,
    date: _write_date,
    timedelta: _write_timedelta,
    Decimal: _write_decimal,
    UUID: _write_uuid,
    bytes: _write_bytes,
}

_READERS: Final[dict[str, Callable[[Tagged], Any]]] = {
    "int": _read_int,
    "dict": _read_dict,
    "tuple": lambda found: tuple(_items(found)),
    "set": lambda found: set(_items(found)),
    "frozenset": lambda found: frozenset(_items(found)),
    "datetime": _read_datetime,
    "time": _read_time,
    "date": _read_date,
    "timedelta": _read_timedelta,
    "decimal": _read_decimal,
    "uuid": _read_uuid,
    "bytes": _read_bytes,
    "enum": _read_enum,
    "dataclass": _read_dataclass,
}
