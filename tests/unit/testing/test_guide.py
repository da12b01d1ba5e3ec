"""The commands of docs/how-to/testing.md print what the page says; its Python runs with all other pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "testing.md"


def test_the_commands_of_the_guide_print_what_it_shows(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
    commands = re.findall(r"```text\n\$ (.+)\n(.+)\n```", text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    printed = [
        subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for command, _ in commands
    ]

    assert len(commands) == 2
    for (_, shown), answer in zip(commands, printed, strict=True):
        assert shown in answer.stdout
