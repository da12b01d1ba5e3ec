"""A small shop, and what a command left behind."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly import Duly

SOURCE = """
from duly import Duly, Retry

app = Duly(lease="5s", namespace="duly")


@app.task
def mail(to: str, password: str = "") -> None:
    if to == "nobody":
        raise LookupError("nobody lives here\\x1b[31m")


@app.task(redact=["password"])
def sign_in(user: str, password: str) -> None: ...


@app.task(redact=["card"])
def pay(card: str, *, note: str) -> None:
    raise ValueError(f"declined {card} {note}")


@app.task(queue_name="io", concurrency=1)
def fetch(page: int) -> None: ...


@app.schedule(cron="0 2 * * *", timezone="Europe/Paris", name="nightly")
@app.task
def bill() -> None: ...
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON it printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Command = Callable[..., Answer]


@dataclass(frozen=True, slots=True)
class Shop:
    """An application in a module of its own."""

    module: str
    folder: Path

    @property
    def app(self) -> Duly:
        app: Duly = importlib.import_module(self.module).app
        return app

    def task(self, name: str) -> Any:
        """One of its tasks."""
        return getattr(importlib.import_module(self.module), name)

    def work(self) -> None:
        """Run what is due."""
        self.app.run(burst=True)

    @property
    def target(self) -> str:
        """How the command line names it."""
        return f"{self.module}:app"
