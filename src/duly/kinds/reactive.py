"""A reactive task: one job per row that matters, which ends when its body does.

How it ends is decided as for any one-off task: `ConditionFailed` skips it, and everything else that the body
raises is tried again by the task's policy.
"""

from __future__ import annotations

from typing import Any, Final, cast

from duly.errors import DefinitionError
from duly.options import Options, TaskOptions, read_options
from duly.reactive.reaction import Reaction, ReactOptions, read_reaction
from duly.retry import Retry

FOREIGN: Final = ("unique_for", "trailing", "overlap", "concurrency_per_key")
"""What would come between a row and the run for its newest state."""


def parted(given: dict[str, Any]) -> tuple[ReactOptions, TaskOptions]:
    """What is said about the table, and what is said about the task."""
    for word in FOREIGN:
        if word in given:
            raise DefinitionError(
                f"@app.react has no option {word!r}: one run at a time for each row, and one more if it "
                "changed meanwhile, is what it does. Use debounce='…' to wait until a row rests."
            )
    known = ReactOptions.__annotations__
    table = {word: value for word, value in given.items() if word in known}
    task = {word: value for word, value in given.items() if word not in known}
    if "retry" not in task and task.get("delivery") != "at_most_once":
        task["retry"] = Retry(on=Exception)
    return cast(ReactOptions, table), cast(TaskOptions, task)


def declared(function: Any, given: dict[str, Any]) -> tuple[Reaction, TaskOptions]:
    """A function's declaration, in types."""
    table, task = parted(given)
    options: Options = read_options(function, task)
    return read_reaction(table, options), task
