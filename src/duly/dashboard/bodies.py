"""What the API is asked, in addresses and bodies, checked against the table it is described by."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from duly.dashboard.openapi import Endpoint, Schema
from duly.errors import BadRequest

Body = Mapping[str, Any]


def checked(endpoint: Endpoint, text: bytes) -> Body:
    """A body with the members it needs, each of its type; else BadRequest."""
    body, known = _object(text), endpoint.body or dict[str, Schema]()
    for name in endpoint.needed:
        if name not in body:
            raise BadRequest(f"The body lacks {name!r}.")
    for name, value in body.items():
        if name not in known:
            raise BadRequest(f"The body has no member {name[:40]!r}. Members: {', '.join(known)}.")
        _check(name, value, known[name])
    return body


def check_query(endpoint: Endpoint, pairs: Iterable[tuple[str, str]]) -> None:
    """No name that means nothing: a filter with a typing error must not select everything."""
    for name, value in pairs:
        if name not in endpoint.query:
            known = ", ".join(endpoint.query) or "none"
            raise BadRequest(f"There is no parameter {name[:40]!r}. Parameters: {known}.")
        schema = endpoint.query[name]
        one = schema["items"] if schema["type"] == "array" else schema
        if one["type"] == "string":
            _check_text(name, value, one)


def _object(text: bytes) -> Body:
    try:
        found: object = json.loads(text or b"null")
    except (ValueError, RecursionError):
        raise BadRequest("The body is not JSON.") from None
    if not isinstance(found, dict):
        raise BadRequest("The body is not a JSON object.")
    return cast(Body, found)


def _check(name: str, value: object, schema: Schema) -> None:
    """As much of JSON Schema as the table of endpoints uses."""
    if schema["type"] == "array":
        _check_list(name, value, schema)
    elif schema["type"] == "string":
        _check_text(name, value, schema)
    else:
        _check_size(name, _whole(name, value), schema, "minimum", "maximum")


def _whole(name: str, value: object) -> int:
    """To JSON, 7.0 is a whole number as well."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise BadRequest(f"{name!r} is not a whole number.")
    return int(value)


def _check_list(name: str, value: object, schema: Schema) -> None:
    if not isinstance(value, list):
        raise BadRequest(f"{name!r} is not a list.")
    values = cast(Sequence[object], value)
    _check_size(name, len(values), schema, "minItems", "maxItems")
    for one in values:
        _check(name, one, schema["items"])


def _check_text(name: str, value: object, schema: Schema) -> None:
    if not isinstance(value, str):
        raise BadRequest(f"{name!r} is not text.")
    if "enum" in schema and value not in schema["enum"]:
        raise BadRequest(f"{name}={value[:40]!r} is none of {', '.join(schema['enum'])}.")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise BadRequest(f"{name}={value[:40]!r} does not match {schema['pattern']}.")
    _check_size(name, len(value), schema, "minLength", "maxLength")


_ENDLESS: Final = 10**18


def _check_size(name: str, size: int, schema: Schema, low: str, high: str) -> None:
    least, most = schema.get(low, 0), schema.get(high, _ENDLESS)
    if not least <= size <= most:
        raise BadRequest(f"{name!r} has the size {size}; between {least} and {most} is possible.")
