"""The Orders project in a process of its own, which runs what a test sends: one JSON document per line.

Starting Django takes a second; a test module starts it once. Log lines of the application are kept, so that a
test can ask for them.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import traceback
from typing import Any


class Remember(logging.Handler):
    """Every line of the application, as it would be printed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {record.levelname} {record.getMessage()}")


def main() -> None:
    django: Any = importlib.import_module("django")
    django.setup()
    remember = Remember()
    logging.getLogger("orders").addHandler(remember)
    space: dict[str, Any] = {"lines": remember.lines}
    for line in sys.stdin:
        try:
            exec(json.loads(line), space)  # noqa: S102 - that is what it is for
            answer = {"answer": space.pop("answer", None)}
        except (Exception, SystemExit):
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
