"""The protocols as small models: spin walks every order of their steps; a freeze is just a long wait.

Each model is also checked with its known faults built in, where spin must find the accident: a model that
cannot fail would prove nothing. `spin` is a Debian package, and compiles its search with a C compiler.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest

MODELS: Final = Path(__file__).parent
DEPTH: Final = 1_000_000
COMPILER: Final = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
MISSING: Final = [
    name for name, found in (("spin", shutil.which("spin")), ("a C compiler", COMPILER)) if not found
]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"checking the models needs {' and '.join(MISSING)}: apt-get install spin gcc"
)

SOUND: Final = ["lease", "lease RESTORE", "generation", "tick", "dirty"]
FAULTY: Final = [
    "lease SETTLE_BY_ID",
    "lease SPLIT_RESCUE",
    "lease RESTORE NO_NONCE",
    "generation NO_CHECK",
    "generation RESTART_AT_DELETE",
    "generation DRAW_EARLY",
    "tick INSERT_THEN_ADVANCE",
    "tick ADVANCE_THEN_INSERT",
    "tick FROM_NOW",
    "tick NO_FENCE",
    "dirty READ_BEFORE_LOCK",
    "dirty CLEAR_AT_END",
    "dirty CURSOR",
]


class Search(NamedTuple):
    """What a search of all orders found."""

    errors: int
    states: int
    report: str


@pytest.mark.parametrize("variant", SOUND)
def test_no_order_of_steps_breaks_the_protocol(variant: str, tmp_path: Path) -> None:
    search = _searched(variant, tmp_path)
    assert search.errors == 0, search.report
    assert search.states > 1000, "a model this small shows nothing"


@pytest.mark.parametrize("variant", FAULTY)
def test_a_known_fault_is_found(variant: str, tmp_path: Path) -> None:
    search = _searched(variant, tmp_path)
    assert search.errors == 1
    assert "assertion violated" in search.report


def test_every_fault_a_model_knows_is_tried() -> None:
    known = {
        f"{model.stem} {name}"
        for model in MODELS.glob("*.pml")
        for name in re.findall(r"#ifdef (\w+)", model.read_text())
        if name != "RESTORE"  # weather, not a fault
    }
    assert known == {variant.replace("RESTORE ", "") for variant in FAULTY}


def _searched(variant: str, folder: Path) -> Search:
    model, *names = variant.split()
    _run(["spin", "-a", *(f"-D{name}" for name in names), str(MODELS / f"{model}.pml")], folder)
    _run([str(COMPILER), "-O1", "-w", "-DSAFETY", "-o", "pan", "pan.c"], folder)
    report = _run(["./pan", f"-m{DEPTH}"], folder)
    assert "search depth too small" not in report
    return Search(_number(r"errors: (\d+)", report), _number(r"(\d+) states, stored", report), report)


def _run(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def _number(pattern: str, report: str) -> int:
    found = re.search(pattern, report)
    assert found, report
    return int(found[1])
