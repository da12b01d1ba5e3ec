"""Every example runs to its end and shows what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reactive_shop_sends_receipts_and_tells_who_waits(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "examples/reactive_shop.py", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("mail to") == 2
    assert "teapot is back: 2 customers told" in ran.stdout
    assert "Notices: [(1, 1), (1, 2)]" in ran.stdout
