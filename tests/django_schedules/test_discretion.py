"""What the admin shows of a call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.django.site import set_up

set_up()

from duly.django.discretion import shown  # noqa: E402


def pay(card: str, amount: int, *notes: str, **extras: Any) -> None: ...


def sign_in(user: str, password: str) -> None: ...


def ask(query: dict[str, Any]) -> None: ...


CASES: list[Any] = [
    (pay, ["card"], [["4111", 7], {}], [["***", 7], {}]),
    (pay, ["card"], [[], {"card": "4111", "amount": 7}], [[], {"card": "***", "amount": 7}]),
    (pay, ["notes"], [["4111", 7, "a", "b"], {}], [["4111", 7, "***", "***"], {}]),
    (pay, ["extras"], [["4111"], {"amount": 7, "iban": "DE1"}], [["4111"], {"amount": 7, "iban": "***"}]),
    (sign_in, [], [["ann", "hunter2"], {}], [["ann", "***"], {}]),
    (ask, ["iban"], [[{"iban": "DE1", "of": [1]}], {}], [[{"iban": "***", "of": [1]}], {}]),
    (ask, [], [[{"of": [{"apiKey": "k"}]}], {}], [[{"of": [{"apiKey": "***"}]}], {}]),
]


@pytest.mark.parametrize(("function", "secret", "call", "seen"), CASES)
def test_a_secret_is_hidden_however_it_is_passed(
    function: Callable[..., Any], secret: list[str], call: Any, seen: Any
) -> None:
    assert json.loads(shown(function, secret, call)) == seen
