"""A small shop in a folder of its own, and the command line called in this process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.cli.arrange import SOURCE, Answer, Command, Shop

from duly.cli import logs, main
from duly.ids import new_id


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith("DULY_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def childless_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command tells its child processes about logs is not for those of other tests."""
    monkeypatch.setenv(logs.CHILDREN, "")
    monkeypatch.setattr(logs, "COMPANIONS", [])


@pytest.fixture
def duly(capsys: pytest.CaptureFixture[str]) -> Command:
    """Call a command: `duly("status", "--json")`."""

    def call(*words: str) -> Answer:
        capsys.readouterr()
        try:
            code = main(words)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """An empty current directory; modules imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        place = getattr(sys.modules[name], "__file__", None)
        if place is not None and place.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def shop(folder: Path, caplog: pytest.LogCaptureFixture) -> Generator[Shop]:
    """A shop whose store exists, with nothing in it."""
    caplog.set_level(logging.CRITICAL, logger="duly")
    module = f"shop_{new_id()[-8:]}"
    (folder / f"{module}.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    shop = Shop(module, folder)
    shop.app.store.open()
    yield shop
    shop.app.close()
