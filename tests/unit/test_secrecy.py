"""What is hidden of a call, however it is passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.contract.arrange import look, put_one, request

from duly.secrecy import Discretion
from duly.secrecy.quotes import hidden_texts
from duly.stores.memory import MemoryStore


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


PAIRED = {"$": "dict", "v": [["$", "cash"], ["iban", "DE12"]]}
DAMAGED: list[Any] = [{"$": "dict"}, {"$": "dict", "v": 3}, {"$": "dict", "v": [[1, 2]]}, {"$": []}]


def test_a_dict_that_is_stored_as_pairs_is_looked_into() -> None:
    assert Discretion(ask, ["iban"]).call([[1, PAIRED], {}]) == [[1, {"$": "cash", "iban": "***"}], {}]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_what_another_program_stored_hides_no_other_job_from_view(damaged: Any) -> None:
    call = [["4111", damaged], {"card": damaged}]

    seen = Discretion(pay, ["card"]).call(call)

    assert seen == [["***", damaged], {"card": "***"}]
    assert "4111" in hidden_texts(call, seen)


class Unread(list[Any]):
    """A call that nobody may look through."""

    def __iter__(self) -> Iterator[Any]:
        pytest.fail("it was looked through")


def test_the_call_of_a_job_that_says_nothing_is_not_looked_through() -> None:
    store = MemoryStore()
    waiting = put_one(store, request())

    job = look(store, waiting.id)

    assert Discretion(None).job(job, Unread()) == job
    with pytest.raises(pytest.fail.Exception):
        Discretion(None).job(replace(job, error="boom"), Unread())
