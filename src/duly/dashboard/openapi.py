"""The description of the JSON API, made from the same table as its routes, so that neither can lie."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request

from duly.dashboard.filters import LONGEST
from duly.job import State
from duly.version import __version__

Schema = Mapping[str, Any]
Answer = Callable[[Request, Mapping[str, Any]], Any | Awaitable[Any]]

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
OBJECT: Final[Schema] = {"type": "object"}
LIST: Final[Schema] = {"type": "array", "items": OBJECT}
LATER: Final[Schema] = {"type": "string", "pattern": "^[0-9]{1,6}[smhd]$"}
"""A span from now: `90s`, `10m`, `2h`, `1d`."""
BOUNDED: Final[Schema] = {"type": "string", "maxLength": LONGEST}

NAME: Final[Mapping[str, Schema]] = {"name": {**BOUNDED, "minLength": 1}}
TERMS: Final[Mapping[str, Schema]] = {"cron": BOUNDED, "every": BOUNDED, "timezone": BOUNDED}
FILTERS: Final[Mapping[str, Schema]] = {
    "task": {"type": "array", "items": BOUNDED},
    "state": {"type": "array", "items": {"type": "string", "enum": [str(state) for state in State]}},
    "queue": {"type": "array", "items": BOUNDED},
    "key": BOUNDED,
    "error": BOUNDED,
    "fingerprint": BOUNDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One operation of the API."""

    method: str
    path: str
    summary: str
    answer: Answer
    query: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    needed: Sequence[str] = ()
    """Names in the query or the body that must be given."""
    body: Mapping[str, Schema] | None = None
    gives: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    """The answer's members."""


def describe(endpoints: Iterable[Endpoint], root: str) -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Duly",
            "version": __version__,
            "description": "Jobs, schedules and workers; every button of the dashboard.",
        },
        "servers": [{"url": root or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _object({"error": TEXT}, ["error"])},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    said: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _name(endpoint),
        "parameters": [*_in_path(endpoint), *_in_query(endpoint)],
        "responses": {
            "200": _content("The answer.", _object(endpoint.gives, list(endpoint.gives))),
            **{str(status): _content(words, _ERROR) for status, words in _REFUSALS.items()},
        },
    }
    if endpoint.body is not None:
        schema = {**_object(endpoint.body, list(endpoint.needed)), "additionalProperties": False}
        said["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return said


_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_REFUSALS: Final = {
    400: "The question or the body is not as described.",
    401: "No token, or one that opens nothing.",
    403: "A viewer may not act.",
    404: "There is no such thing.",
    409: "Well put, and impossible: such jobs, or such terms.",
    413: "The body is too large.",
    429: "Too many failed tries.",
    503: "The store is away.",
}


def _name(endpoint: Endpoint) -> str:
    words = re.sub(r"[^a-z]+", "_", endpoint.path.removeprefix("/api").lower()).strip("_")
    return f"{endpoint.method.lower()}_{words}"


def _in_path(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", endpoint.path)
    return [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]


def _in_query(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": name in endpoint.needed, "schema": schema}
        for name, schema in endpoint.query.items()
    ]


def _object(members: Mapping[str, Schema], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(members), "required": required}


def _content(words: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
