"""Every code block of README and docs runs, in the order a reader meets it.

Blocks of one page share a folder and a namespace. A block that opens with `# name.py` is also saved
under that name. In console blocks each `$ command` runs in a shell, and the lines below it must
appear in its output.

A page that starts a Django project is about files of that project: a block with a name is saved there (or
added, with `# name.py, at the end`), any other one runs in the project's shell.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLS = re.compile(r"^(pip|uv|make|python -m venv|source|git|apt-get) ?")
"""Commands about the reader's machine; the clean-clone run of the continuous integration covers them."""
STARTS_PROJECT = "$ django-admin startproject"
PLAIN = {"text", "toml", "sql", "ini", "mermaid", "json", "diff", "yaml"}
"""Blocks that show something and are not meant to be run."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in FENCE.finditer(text)
    ]


def has_code(page: Path) -> bool:
    return any(block.language not in PLAIN for block in blocks_of(page))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DULY_URL", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)  # a page that traces does so alone
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if has_code(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_block_of_the_page_runs(page: Path, folder: Path) -> None:
    namespace: dict[str, object] = {"__name__": "page"}
    is_project = STARTS_PROJECT in page.read_text(encoding="utf-8")
    for block in blocks_of(page):
        if block.language == "python" and is_project:
            run_in_project(block, folder, page)
        elif block.language == "python":
            run_python(block, folder, namespace, page)
        elif block.language == "console":
            run_console(block, folder, page)
        else:
            assert block.language in PLAIN, f"{page}:{block.line}: nobody runs {block.language} blocks"


def run_python(block: Block, folder: Path, namespace: dict[str, object], page: Path) -> None:
    named = re.match(r"# ([\w/]+\.py)\n", block.text)
    if named:
        target = folder / named[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")
        namespace["__file__"] = str(target)
    code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
    exec(code, namespace)  # noqa: S102 - running the page's code is the point


def run_in_project(block: Block, folder: Path, page: Path) -> None:
    named = re.match(r"# ([\w/]+\.py)(, at the end)?\n", block.text)
    if named:
        with (folder / named[1]).open("a" if named[2] else "w", encoding="utf-8") as target:
            target.write(block.text)
        return
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "-c", block.text],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{page}:{block.line}: {done.stderr}"


def environment() -> dict[str, str]:
    """As in a reader's shell: nothing of another test's project."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    others = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return {**others, "PATH": path, "NO_COLOR": "1"}


def run_console(block: Block, folder: Path, page: Path) -> None:
    """One shell per block, so that a worker started with & serves the commands below it."""
    commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    expected = [line for line in block.text.splitlines() if line and not line.startswith("$ ")]
    script = "\n".join(command for command in commands if not INSTALLS.match(command))
    if not script:
        return
    transcript = folder / "console.txt"
    with transcript.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-ec", script],
            cwd=folder,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(timeout=100)
        finally:
            with suppress(ProcessLookupError):  # no worker was left behind
                os.killpg(shell.pid, signal.SIGKILL)
    printed = transcript.read_text()
    assert code == 0, f"{page}:{block.line}: {script!r} exited with {code}:\n{printed}"
    for line in expected:
        assert line.rstrip("… ") in printed, f"{page}:{block.line}: {line!r} is not in\n{printed}"
