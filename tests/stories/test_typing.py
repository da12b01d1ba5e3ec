"""What a type checker sees: `enqueue` takes the function's arguments, and the result is the function's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.timeout(180)  # a checker without its cache takes its time

ROOT: Final = Path(__file__).parents[2]

SNIPPET: Final = """\
from __future__ import annotations

from typing import assert_type

from duly import Duly, Handle, Retry, Run

app = Duly("memory://")


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(keep_result="1h", retry=Retry(on=OSError))
async def fetch(url: str, *, timeout: float = 1.0) -> str:
    return url


@app.task
def ask(run: Run, question: str) -> bool:
    return run.attempt == 1


@app.task(priority=5)
async def ask_later(run: Run, question: str) -> bool:
    return run.attempt == 1


@app.perpetual(every="5m")
async def poll(run: Run, pool: int) -> None:
    run.again(after="30s")


@app.schedule(cron="0 2 * * *")
@app.task
def nightly(run: Run) -> None: ...


async def right() -> None:
    assert_type(add(1, 2), int)
    assert_type(add.enqueue(1, b=2), Handle[int])
    assert_type(add.enqueue(1, 2).result(), int)
    assert_type(await (await add.aenqueue(1, 2)).aresult(timeout="1s"), int)
    assert_type(add.using(key="k").enqueue(1, 2).result(), int)
    assert_type(await fetch("u"), str)
    assert_type(fetch.enqueue("u", timeout=2).result(), str)
    assert_type(await fetch.using(priority=5).using(run_after="1m").aenqueue("u"), Handle[str])
    assert_type(ask.enqueue("why?").result(), bool)
    assert_type(ask("why?"), bool)
    assert_type(ask_later.enqueue("why?").result(), bool)
    assert_type(poll.using(key="pool:1").enqueue(1).result(), None)
    assert_type(nightly.enqueue(), Handle[None])
    assert_type(add.enqueue_many([((1, 2), {}), ((3,), {"b": 4})]), list[Handle[int]])


async def wrong(run: Run) -> None:
    add.enqueue("1", 2)  # wrong
    add.enqueue(1)  # wrong
    add.enqueue(1, 2, 3)  # wrong
    add.enqueue(1, c=2)  # wrong
    add("1", 2)  # wrong
    await add.aenqueue("1", 2)  # wrong
    await fetch.aenqueue(7)  # wrong
    add.using(priority=5).enqueue("1", 2)  # wrong
    add.using(key="k").using(priority=5).enqueue(1)  # wrong
    await fetch.using(key="k").aenqueue("u", timeout="soon")  # wrong
    ask.enqueue(run, "why?")  # wrong
    ask_later.enqueue(1)  # wrong
    poll.enqueue("one")  # wrong
    nightly.enqueue(1)  # wrong
    add.using(colour="red")  # wrong
    add.using(priority="high")  # wrong
    add.using(overlap="mix")  # wrong
    app.task(colour="red")  # wrong
    app.task(retry=3)  # wrong
    app.schedule(missed="maybe")  # wrong
    app.perpetual(automatic=True)  # wrong
    text: str = add.enqueue(1, 2).result()  # wrong
    print(text)
"""

WRONG: Final = {number for number, line in enumerate(SNIPPET.splitlines(), 1) if "# wrong" in line}


@pytest.fixture
def snippet(tmp_path: Path) -> Path:
    path = tmp_path / "snippet.py"
    path.write_text(SNIPPET, encoding="utf-8")
    return path


def _run(*words: str, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", *words], cwd=cwd, capture_output=True, text=True, check=False, env=os.environ
    )
    assert result.returncode == 1, result.stdout + result.stderr  # errors were found, and nothing worse
    return result.stdout


def test_mypy_reports_exactly_the_wrong_calls(snippet: Path) -> None:
    pytest.importorskip("mypy")

    output = _run("mypy", "--config-file", str(ROOT / "pyproject.toml"), str(snippet), cwd=ROOT)

    found = {int(number) for number in re.findall(r"snippet\.py:(\d+): error", output)}
    assert found == WRONG, output


def test_pyright_reports_exactly_the_wrong_calls(snippet: Path) -> None:
    pytest.importorskip("pyright")
    settings = {"include": [snippet.name], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "strict"}
    (snippet.parent / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")

    output = _run(
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "-p",
        str(snippet.parent),
        cwd=snippet.parent,
    )

    problems = json.loads(output)["generalDiagnostics"]
    found = {problem["range"]["start"]["line"] + 1 for problem in problems}
    assert found == WRONG, "\n".join(problem["message"] for problem in problems)
