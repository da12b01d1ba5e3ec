"""Requests made from the description find no answer that it does not promise."""

from __future__ import annotations

import importlib
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, settings
from tests.dashboard.arrange import OPERATOR

from duly import Duly
from duly.dashboard import asgi

PROMISES: Final[Any] = importlib.import_module("schemathesis.specs.openapi.checks")
CHECKS: Final = [
    getattr(PROMISES, name)
    for name in (
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "positive_data_acceptance",
    )
]
AS_OPERATOR: Final = {"authorization": f"Bearer {OPERATOR}"}


def described() -> Any:
    """The description of a site with something to look at."""
    app = Duly("memory://")

    @app.schedule(cron="30 2 * * *", timezone="Europe/Paris", name="0")
    @app.task(name="0")
    def report(word: str = "") -> None: ...

    report.using(key="0").enqueue("0")
    return schemathesis.openapi.from_asgi("/api/openapi.json", asgi(app, token=OPERATOR), headers=AS_OPERATOR)


schema = described()


@schema.parametrize()  # type: ignore[untyped-decorator]
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_every_answer_is_one_that_was_promised(case: Any) -> None:
    case.call_and_validate(headers=AS_OPERATOR, checks=CHECKS)
