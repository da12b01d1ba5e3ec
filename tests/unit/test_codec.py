"""Values come back from the store exactly as they went, or are refused with their place."""

from __future__ import annotations

import enum
import math
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.codec import pack, pack_value, unpack, unpack_value
from duly.errors import ArgumentsTooLarge, BadRequest, Unserialisable


class Colour(enum.Enum):
    RED = "r"
    BLUE = object()


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Owner:
    name: str
    since: date | None = None


@dataclass
class Lease:
    owner: Owner
    tags: set[str] = field(default_factory=set[str])
    total: int = field(init=False, default=0)

    class Kind(enum.Enum):
        SHORT = 1

    @cached_property
    def title(self) -> str:
        return self.owner.name.upper()


@dataclass
class Noted:
    text: str

    def __post_init__(self) -> None:
        self.length = len(self.text)


class Loud(str):
    __slots__ = ()


class Fixed(tzinfo):
    def utcoffset(self, _when: datetime | None, /) -> timedelta:
        return timedelta(hours=1)

    def dst(self, _when: datetime | None, /) -> None:
        return None

    def tzname(self, _when: datetime | None, /) -> str:
        return "one hour off"


class Pair(NamedTuple):
    left: int
    right: int


class Model:
    _meta = "of a table"


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
zones = st.sampled_from(["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "UTC"]).map(ZoneInfo)
moments = st.datetimes(timezones=st.one_of(st.none(), st.just(UTC), offsets, zones), allow_imaginary=True)
hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**700), 10**700),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.binary(),
    st.dates(),
    moments,
    st.times(timezones=st.one_of(st.none(), offsets, zones)),
    st.timedeltas(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
    st.sampled_from(
        [Colour.RED, Colour.BLUE, Level.LOW, Mode.FAST, Rights.READ, Rights.READ | Rights.WRITE, Rights(0)]
    ),
    st.builds(Owner, texts, st.none() | st.dates()),
)
keys = st.one_of(texts, st.sampled_from(["$", "v", "type"]))
values = st.recursive(
    hashable | st.frozensets(hashable) | st.sets(hashable) | st.builds(Lease, st.builds(Owner, texts)),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.lists(inner).map(tuple),
    max_leaves=20,
)


def spelled(value: Any) -> Any:
    """Everything that tells two values apart, types, signs and zones included."""
    match value:
        case dict():
            return [(key, spelled(each)) for key, each in cast(dict[str, Any], value).items()]
        case list() | tuple():
            return type(cast(object, value)), [spelled(each) for each in cast(list[Any], value)]
        case set() | frozenset():
            return type(cast(object, value)), sorted(map(repr, cast(set[Any], value)))
        case datetime() | time():
            return value.__class__, repr(value), value.fold, repr(value.tzinfo)
        case _:
            return value.__class__, repr(value)


@given(values)
def test_every_value_comes_back_exactly_as_it_was(value: Any) -> None:
    back = unpack_value(pack_value(value))

    assert spelled(back) == spelled(value)


@given(st.lists(values, max_size=3).map(tuple), st.dictionaries(keys, values, max_size=3))
def test_every_call_comes_back_exactly_as_it_was(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    back_args, back_kwargs = unpack(pack(args, kwargs))

    assert spelled(back_args) == spelled(args)
    assert spelled(back_kwargs) == spelled(kwargs)


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        5e-324,
        2**63,
        Decimal("-0.00"),
        Decimal("1E+400"),
        UUID(int=0),
        datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York")),
        datetime(2026, 11, 1, 1, 30, fold=1),  # noqa: DTZ001
        time(1, 30, tzinfo=ZoneInfo("Europe/Paris")),
        timedelta.min,
        datetime.max,  # noqa: DTZ901
        {"$": {"$": [{"$": "tuple", "v": [1]}]}},
        [[], {}, (), set[int](), frozenset[int](), "", b""],
        {"": None},
        "\\u0000 is no NUL, \u2028 and 😀 are characters",
        Lease.Kind.SHORT,
    ],
)
def test_the_awkward_values_come_back_too(value: Any) -> None:
    back = unpack_value(pack_value(value))

    assert spelled(back) == spelled(value)


@pytest.mark.parametrize("digits", [616, 617, 640, 5000])
def test_an_integer_has_as_many_digits_as_it_likes(digits: int) -> None:
    large = -(10**digits) + 1

    assert unpack_value(pack_value([large])) == [large]
    assert ('"$"' in pack((large,), {})) == (digits > 616)
    assert unpack(pack((large,), {})) == ((large,), {})


def test_plain_arguments_are_plain_json() -> None:
    assert pack((12345, "é"), {"user_id": 7}) == '[[12345,"é"],{"user_id":7}]'


def test_equal_sets_have_equal_texts_in_processes_with_different_hashes() -> None:
    program = "from duly.codec import pack; print(pack(({'a', 'b', 'c', (1, 'x')},), {}))"

    texts_made = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(texts_made) == 1


def test_a_dataclass_with_a_cached_property_is_stored_without_it() -> None:
    lease = Lease(Owner("ada"))
    assert lease.title == "ADA"

    back = unpack_value(pack_value(lease))

    assert back == lease
    assert "title" not in vars(back)


def self_containing() -> list[Any]:
    inner: list[Any] = []
    inner.append({"again": inner})
    return [inner]


def in_list(inner: object) -> object:
    return [inner]


def in_tuple(inner: object) -> object:
    return (inner,)


def in_escaped_dict(inner: object) -> object:
    return {"$": inner}


def nested(depth: int, wrap: Callable[[object], object]) -> object:
    value: object = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@dataclass
class Unset:
    __slots__ = ("gone",)
    gone: int


@dataclass
class Words(list[str]):
    language: str = "en"


def local_colour() -> enum.Enum:
    class Local(enum.Enum):
        RED = 1

    return Local.RED


@pytest.mark.parametrize(
    ("argument", "place", "remedy"),
    [
        (math.nan, "args[0]", "Pass None"),
        ({"x": [1, math.inf]}, 'args[0]["x"][1]', "Pass None"),
        (Decimal("NaN"), "args[0]", "Pass None"),
        ("a\0b", "args[0]", "pass bytes"),
        ({"a\0b": 1}, 'args[0]["a\\u0000b"]', "pass bytes"),
        (["\ud800"], "args[0][0]", "pass bytes"),
        ({"\udfff": 1}, 'args[0]["\\udfff"]', "pass bytes"),
        ({1: 2}, 'args[0]["1"]', "list of pairs"),
        ({Loud("x"): 2}, 'args[0]["x"]', "list of pairs"),
        (self_containing(), 'args[0][0][0]["again"]', "contains itself"),
        (nested(102, in_list), "args[0]" + "[0]" * 100, "more than 100 levels"),
        (nested(102, in_tuple), "args[0]" + "[0]" * 100, "more than 100 levels"),
        (Loud("x"), "args[0]", "Pass str(value)"),
        (Pair(1, 2), "args[0]", "Pass tuple(value)"),
        (OrderedDict(a=1), "args[0]", "Pass dict(value)"),
        (Words(), "args[0]", "Pass list(value)"),
        (Path("/tmp"), "args[0]", "Pass str(path)"),
        (bytearray(b"x"), "args[0]", "Pass bytes(value)"),
        (Model(), "args[0]", "primary key"),
        (len, "args[0]", "plain values"),
        (Owner, "args[0]", "plain values"),
        (object(), "args[0]", "plain values"),
        (1j, "args[0]", "plain values"),
        (Lease(Owner("x", since=object())), "args[0].owner.since", "plain values"),  # type: ignore[arg-type]
        (Noted("x"), "args[0].length", "field(init=False)"),
        (object.__new__(Unset), "args[0].gone", "plain values"),
        (local_colour(), "args[0]", "top of a module"),
        (datetime(2026, 1, 1, tzinfo=Fixed()), "args[0]", "zoneinfo.ZoneInfo"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "BST")), "args[0]", "zoneinfo.ZoneInfo"),
        (time(tzinfo=timezone(timedelta(microseconds=1))), "args[0]", "zoneinfo.ZoneInfo"),
        ({frozenset([math.inf])}, "args[0][0][0]", "Pass None"),
    ],
)
def test_what_would_not_survive_is_refused_with_place_and_remedy(
    argument: Any, place: str, remedy: str
) -> None:
    with pytest.raises(Unserialisable) as refusal:
        pack((argument,), {})

    assert refusal.value.path == place
    assert remedy in str(refusal.value)


def test_a_refused_keyword_is_named() -> None:
    with pytest.raises(Unserialisable, match=r'kwargs\["lease"\]\.owner'):
        pack((), {"lease": Lease(owner=object())})  # type: ignore[arg-type]
    with pytest.raises(Unserialisable, match=r"^value\[1\] "):
        pack_value([1, object()])


@pytest.mark.parametrize("wrap", [in_list, in_tuple, in_escaped_dict])
def test_a_hundred_levels_are_deep_enough_and_allowed(wrap: Callable[[object], object]) -> None:
    value = nested(100, wrap)

    assert unpack_value(pack_value(value)) == value


def test_an_object_that_cannot_even_be_printed_is_refused() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(Unserialisable, match="unprintable"):
        pack((Rude(),), {})


def test_the_cap_counts_bytes() -> None:
    assert pack(("é" * 10,), {}, cap=29) == f'[["{"é" * 10}"],{{}}]'
    with pytest.raises(ArgumentsTooLarge, match="29 bytes, the cap is 28"):
        pack(("é" * 10,), {}, cap=28)
    with pytest.raises(ArgumentsTooLarge):
        pack_value("x" * 256_000)


@given(st.one_of(st.text(), st.floats(), st.lists(st.text()), st.dictionaries(st.text(), st.floats())))
def test_packing_either_round_trips_or_refuses(value: Any) -> None:
    try:
        text = pack((value,), {})
    except BadRequest:
        return

    text.encode()
    assert "\0" not in str(unpack(text))
    assert unpack(text) == ((value,), {})
