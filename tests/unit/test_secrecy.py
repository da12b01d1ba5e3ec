"""What is hidden of a call, however it is passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duly.secrecy import Discretion


def pay(card: str, amount: int, *notes: str, **extras: Any) -> None: ...


def sign_in(user: str, password: str) -> None: ...


def ask(run: object, query: dict[str, Any]) -> None: ...


def connect(host: str, *tokens: str, **credentials: str) -> None: ...


CASES: list[Any] = [
    (pay, ["card"], [["4111", 7], {}], [["***", 7], {}]),
    (pay, ["card"], [[], {"card": "4111", "amount": 7}], [[], {"card": "***", "amount": 7}]),
    (pay, ["notes"], [["4111", 7, "a", "b"], {}], [["4111", 7, "***", "***"], {}]),
    (pay, ["extras"], [["4111"], {"amount": 7, "iban": "DE1"}], [["4111"], {"amount": 7, "iban": "***"}]),
    (sign_in, [], [["ann", "hunter2"], {}], [["ann", "***"], {}]),
    (ask, ["iban"], [[{"iban": "DE1", "of": [1]}], {}], [[{"iban": "***", "of": [1]}], {}]),
    (connect, [], [["db", "a", "b"], {"user": "ann"}], [["db", "***", "***"], {"user": "***"}]),
    (pay, [], [], []),
    (pay, [], "no call", "no call"),
    (ask, [], [[{"of": [{"apiKey": "k"}]}], {}], [[{"of": [{"apiKey": "***"}]}], {}]),
]


@pytest.mark.parametrize(("function", "secret", "call", "seen"), CASES)
def test_a_secret_is_hidden_however_it_is_passed(
    function: Callable[..., Any], secret: list[str], call: Any, seen: Any
) -> None:
    assert Discretion(function, secret, handed_in=["run"]).call(call) == seen


def test_of_a_call_whose_code_is_not_here_nothing_is_shown() -> None:
    assert Discretion(None).call([["4111"], {}]) == "***"
