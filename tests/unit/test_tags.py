"""Stored text may be damaged or hostile: reading it runs nothing and says what is wrong."""

from __future__ import annotations

import enum
import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.codec import pack_value, register, unpack, unpack_value
from duly.errors import Undecodable

HERE = __name__


class Colour(enum.Enum):
    RED = "r"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Owner:
    name: str


@dataclass
class Lease:
    owner: Owner
    tags: set[str] = field(default_factory=set[str])
    total: int = field(init=False, default=0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "[[],{},1]",
        "[{},[]]",
        '[[],{"a":1}',
        "[[NaN],{}]",
        "[[1e400],{}]",
        "[[-Infinity],{}]",
        f"[[{'9' * 5000}],{{}}]",
        "[" * 100_000,
        "[[" + '{"$":"tuple","v":[' * 10_000,
        b"\x80\x04\x95",
        '[[{"$":"pickle","v":"gASVIA=="}],{}]',
        '[[{"$":["tuple"]}],{}]',
        '[[{"$":"tuple"}],{}]',
        '[[{"$":"tuple","v":"ab"}],{}]',
        '[[{"$":"set","v":[[]]}],{}]',
        '[[{"$":"dict","v":[1]}],{}]',
        '[[{"$":"dict","v":[[1,2]]}],{}]',
        '[[{"$":"int","v":"zz"}],{}]',
        '[[{"$":"bytes","v":"*"}],{}]',
        '[[{"$":"bytes","v":"é"}],{}]',
        '[[{"$":"uuid","v":"1"}],{}]',
        '[[{"$":"decimal","v":"one"}],{}]',
        '[[{"$":"date","v":"2026-02-31"}],{}]',
        '[[{"$":"datetime","v":5}],{}]',
        '[[{"$":"datetime","v":"2026-01-01T00:00:00","fold":7}],{}]',
        '[[{"$":"datetime","v":"2026-01-01T00:00:00","zone":"../../etc/passwd"}],{}]',
        '[[{"$":"datetime","v":"2026-01-01T00:00:00","zone":"Mars/Base"}],{}]',
        '[[{"$":"time","v":"25:00"}],{}]',
        '[[{"$":"timedelta","v":[1e9,0,0]}],{}]',
        '[[{"$":"timedelta","v":[9999999999,0,0]}],{}]',
        '[[{"$":"enum","type":"os:system","name":"x"}],{}]',
        '[[{"$":"enum","type":"enum:Enum","name":"x"}],{}]',
        '[[{"$":"dataclass","type":"builtins:dict","v":{}}],{}]',
        '[[{"$":"dataclass","type":"subprocess:Popen","v":{"args":"true"}}],{}]',
        '[[{"$":"dataclass","type":"json","v":{}}],{}]',
        '[[{"$":"dataclass","type":7,"v":{}}],{}]',
    ],
)
def test_hostile_or_damaged_text_is_undecodable(text: Any) -> None:
    with pytest.raises(Undecodable):
        unpack(text)


scraps = st.recursive(
    st.none()
    | st.integers()
    | st.text()
    | st.sampled_from(["dataclass", "enum", f"{HERE}:Owner", f"{HERE}:Rights"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$", "v", "type", "name", "value", "zone", "fold"]), inner)
    ),
)


@given(st.text() | scraps.map(json.dumps))
def test_any_text_is_read_or_undecodable(text: str) -> None:
    with suppress(Undecodable):
        unpack_value(text)


def test_reading_imports_nothing() -> None:
    assert "this" not in sys.modules

    with pytest.raises(Undecodable, match=r"this is not loaded\. Import it where the worker starts"):
        unpack_value('{"$":"dataclass","type":"this:s","v":{}}')

    assert "this" not in sys.modules


def test_reading_calls_no_constructor(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pack_value(Owner("ada"))
    monkeypatch.setattr(Owner, "__init__", None)

    assert unpack_value(text).name == "ada"


def test_a_field_added_since_takes_its_default() -> None:
    text = f'{{"$":"dataclass","type":"{HERE}:Lease","v":{{"owner":null}}}}'

    back = unpack_value(text)

    assert (back.tags, back.total) == (set(), 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"$":"dataclass","type":"%s:Owner","v":{}}', "lacks the field 'name', which has no default"),
        ('{"$":"dataclass","type":"%s:Owner","v":{"name":"x","age":3}}', "has no field 'age' any more"),
        ('{"$":"dataclass","type":"%s:Gone","v":{}}', "has no such class. If it was moved, register it"),
        ('{"$":"enum","type":"%s:Colour","name":"GREEN"}', "GREEN"),
        ('{"$":"enum","type":"%s:Owner","name":"RED"}', "no Enum here"),
        ('{"$":"enum","type":"%s:Rights","value":64}', "64"),
        ('{"$":"dataclass","type":"%s:Colour","v":{}}', "no dataclass here"),
        ('{"$":"hologram"}', "unknown tag 'hologram'. A newer version"),
    ],
)
def test_what_the_code_no_longer_knows_is_undecodable_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Undecodable) as refusal:
        unpack_value(text.replace("%s", HERE))

    assert reason in str(refusal.value)


def test_a_class_that_was_moved_can_be_registered() -> None:
    text = pack_value(Owner("ada")).replace(HERE, "old.place")

    register(Owner, "old.place:Owner")

    assert unpack_value(text) == Owner("ada")
