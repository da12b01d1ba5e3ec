"""Arguments and return values as Django Tasks wants them: plain JSON, and exactly what comes back.

Stricter than Django's own normalising, which lets through what no database stores or no reader gets back:
numbers that are none, and keys that are not text.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duly.errors import WrongSignature


def plain(value: object, what: str = "value") -> Any:
    """The value in JSON's types; TypeError names the place of what has none."""
    parts: Any = value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return _finite(value, what)
    if isinstance(value, bytes):
        return _text(value, what)
    if isinstance(value, Mapping):
        return {_key(key, what): plain(each, f"{what}[{key!r}]") for key, each in parts.items()}
    if isinstance(value, Sequence):
        return [plain(each, f"{what}[{index}]") for index, each in enumerate(parts)]
    raise TypeError(f"Unsupported type: {type(value)} in {what}. Pass plain JSON, such as the id of a row.")


def _finite(value: float, what: str) -> float:
    if math.isfinite(value):
        return value
    raise TypeError(
        f"Unsupported value: {value!r} in {what} is not a number that JSON has. Pass None or text."
    )


def _text(value: bytes, what: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"Unsupported value: {type(value)} in {what} is not UTF-8.") from error


def _key(key: Any, what: str) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(f"Unsupported key: {key!r} in {what} would come back as text. Use text for keys.")


def plain_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, takes_context: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a request, if the function can be called with them."""
    given = tuple(plain(each, f"argument {index + 1}") for index, each in enumerate(args))
    named = {name: plain(each, name) for name, each in kwargs.items()}
    try:
        inspect.signature(function).bind(*(((None,) if takes_context else ()) + given), **named)
    except TypeError as error:
        raise WrongSignature(f"{function.__module__}.{function.__qualname__}", str(error)) from None
    return given, named
