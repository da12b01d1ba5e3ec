"""What is hidden stays hidden: however it was passed, stored, quoted, cut off or asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

import pytest
from starlette.testclient import TestClient
from tests.dashboard.arrange import OPERATOR, Shop

from duly import ConditionFailed, Duly, Retry, Run, bind
from duly.dashboard import asgi
from duly.lifecycle import GIST
from duly.secrecy.quotes import cleared, hidden_texts, without
from duly.testing import virtual

SECRET = "4111-1111-1111"
Hidden = str | int | bytes | UUID | dict[str, str]
PLACES = (
    "/jobs",
    "/jobs/{id}",
    "/api/jobs",
    "/api/jobs/{id}",
    "/bulk?order=retry",
    "/api/preview?order=retry",
    "/failures",
    "/api/failures",
    "/api/search?text=shop",
    "/live.json",
)


def as_json(value: object) -> str:
    return json.dumps(value, default=str)


def as_address(value: object) -> str:
    return quote_plus(str(value))


WAYS: dict[str, Callable[[object], str]] = {
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "address": as_address,
    "json": as_json,
}


@dataclass
class Card:
    """As a dataclass it is stored with a tag."""

    number: str
    password: str


def seen_of(client: TestClient, job: str) -> str:
    """Everything that any look tells of a job, in one text."""
    answers = [client.get(path.format(id=job)) for path in PLACES]
    assert [answer.status_code for answer in answers] == [200] * len(PLACES)
    return "\n".join(answer.text for answer in answers)


# --- however it was passed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        ((1, SECRET), {}),
        ((1,), {"card": SECRET}),
        ((1, "none", "more", SECRET), {}),
        ((1,), {"extra": SECRET}),
        ((1,), {"order_line": {"card": SECRET}}),
        ((1,), {"order_line": [{"deep": [{"card": {"number": SECRET}}]}]}),
        ((1,), {"order_line": {"$": "a name of its own", "card": SECRET}}),
    ],
    ids=["place", "name", "rest", "others", "nested", "deeper", "pairs"],
)
def test_what_a_task_redacts_is_hidden_however_it_is_passed(shop: Shop, call: Any) -> None:
    @shop.app.task(name="shop.pay", redact=["card", "rest", "others"])
    def pay(order: int, card: str = "", *rest: str, order_line: object = None, **others: object) -> None: ...

    args, kwargs = call
    job = pay.enqueue(*args, **kwargs)

    seen = seen_of(shop.visit(OPERATOR), job.id)

    assert SECRET not in seen
    assert job.id in seen


@pytest.mark.parametrize(
    "name", ["password", "api_key", "apiKey", "API-Key", "user_pwd", "private_key", "pin"]
)
def test_a_name_that_is_a_secret_is_hidden_in_a_dictionary(shop: Shop, name: str) -> None:
    @shop.app.task(name="shop.call")
    def call(request: dict[str, object]) -> None: ...

    job = call.enqueue({"headers": {name: SECRET}, "path": "/orders"})

    seen = seen_of(shop.visit(OPERATOR, redact=["pin"]), job.id)

    assert SECRET not in seen
    assert "/orders" in seen


def test_a_parameter_whose_name_is_a_secret_is_hidden_when_it_is_passed_by_its_place(shop: Shop) -> None:
    @shop.app.task(name="shop.sign_in")
    def sign_in(run: Run, user: str, password: str, pin: str) -> None: ...

    job = sign_in.enqueue("ann", SECRET, "9876-5432")

    seen = seen_of(shop.visit(OPERATOR, redact=["pin"]), job.id)

    assert SECRET not in seen
    assert "9876-5432" not in seen
    assert "ann" in seen


def test_a_secret_field_of_a_dataclass_is_hidden(shop: Shop) -> None:
    @shop.app.task(name="shop.store")
    def store(card: Card) -> None: ...

    job = store.enqueue(Card("visible-number", SECRET))

    seen = seen_of(shop.visit(OPERATOR), job.id)

    assert SECRET not in seen
    assert "visible-number" in seen


@pytest.mark.parametrize("path", ["/schedule?name=nightly", "/schedules", "/api/schedules"])
def test_what_a_schedule_passes_is_hidden_too(path: str) -> None:
    app = Duly("memory://")

    @app.schedule(cron="0 2 * * *", name="nightly", args=(SECRET,), kwargs={"token": "abcdef-token"})
    @app.task(name="shop.report", redact=["card"])
    def report(card: str, token: str) -> None: ...

    with virtual(app) as clock:
        clock.run_due()
        client = TestClient(asgi(app, token=OPERATOR), headers={"authorization": f"Bearer {OPERATOR}"})
        answer = client.get(path)

    assert answer.status_code == 200
    assert SECRET not in answer.text
    assert "abcdef-token" not in answer.text


# --- wherever it is quoted ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret",
    [SECRET, 41_111_111, 'it\'s "quoted" \\ here', "naïve-pâss", "two\nlines", "a b/c&d=e", b"bytes-of-it",
     UUID(int=2**127 + 1), {"name-of-it": "value-of-it"}],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("how", WAYS)
def test_an_error_quotes_a_secret_in_no_form(shop: Shop, secret: Hidden, how: str) -> None:
    quoted = WAYS[how](secret)

    @shop.app.task(name="shop.pay", redact=["card"])
    def pay(card: Hidden) -> None:
        raise ValueError(f"declined {quoted}")

    job = pay.enqueue(secret)
    shop.clock.run_due()

    document = shop.visit(OPERATOR).get(f"/api/jobs/{job.id}").json()["job"]

    parts = ["name-of-it", "value-of-it"] if isinstance(secret, dict) else [quoted]
    assert "declined" in document["error"]
    assert [part for part in parts if part in document["error"]] == []


def test_results_progress_context_reasons_and_old_tries_do_not_quote_it(shop: Shop) -> None:
    @shop.app.task(name="shop.pay", redact=["card"], keep_result="1h", retry=Retry(on=OSError, attempts=2))
    def pay(run: Run, card: str) -> dict[str, str]:
        run.progress(1, 2, message=f"asking for {card}")
        if run.attempt == 1:
            raise OSError(f"no line for {card}")
        return {"said": f"{card} was good", "card": "in the result"}

    @shop.app.task(name="shop.skip", redact=["card"])
    def skip(card: str) -> None:
        raise ConditionFailed(f"nothing to do for {card}")

    with bind(asked_with=SECRET):
        jobs = [pay.enqueue(SECRET).id, skip.enqueue(SECRET).id]
    shop.clock.run_due()
    shop.clock.advance("1h")
    shop.clock.run_due()

    seen = "\n".join(seen_of(shop.visit(OPERATOR), job) for job in jobs)

    assert SECRET not in seen
    assert "in the result" not in seen
    assert "was good" in seen
    assert "asked_with" in seen
    assert "nothing to do for" in seen
    assert "no line for" in seen


def test_a_line_of_history_that_cuts_a_secret_off_shows_no_part_of_it(shop: Shop) -> None:
    filling = "x" * (GIST - len("OSError: ") - 9)

    @shop.app.task(name="shop.pay", redact=["card"], retry=Retry(on=OSError, attempts=2))
    def pay(card: str) -> None:
        raise OSError(filling + card)

    job = pay.enqueue(SECRET)
    shop.clock.run_due()
    assert shop.app.jobs.get(job).history[-1].note.endswith("x" + SECRET[:9])

    seen = seen_of(shop.visit(OPERATOR), job.id)

    assert SECRET[:5] not in seen


def test_texts_are_hidden_longest_first_and_numbers_whole() -> None:
    hidden = hidden_texts([["abcdef", "abcdefghi", 123456], {}], "***")

    assert without("abcdefghi and abcdef", hidden) == "*** and ***"
    assert cleared({"abcdef": [123456, 7, True, None]}, hidden) == {"***": ["***", 7, True, None]}
    assert without("it ends with abcd", hidden) == "it ends with ***"
    assert without("it ends with abc", hidden) == "it ends with abc"  # too short to tell anything


# --- however it is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/jobs?limit=1&error={}",
        "/api/jobs?error={}",
        "/api/search?text={}",
        "/api/preview?order=retry&error={}",
        "/api/preview?order=retry&text={}",
    ],
)
def test_a_right_guess_is_answered_as_a_wrong_one(shop: Shop, path: str) -> None:
    @shop.app.task(name="shop.pay", redact=["card"])
    def pay(card: str) -> None:
        raise ValueError(f"declined {card}")

    for _ in range(60):
        pay.enqueue(SECRET)
    shop.clock.run_due()
    client = shop.visit(OPERATOR)

    right, wrong = (
        client.get(path.format(guess)).json() for guess in (f"declined {SECRET[:6]}", "declined 9999")
    )

    for answer in (right, wrong):
        answer.pop("command", None)  # which repeats the question
    assert right == wrong
