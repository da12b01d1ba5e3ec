"""`duly doctor`: look at everything that usually goes wrong, and say what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from duly.cli.answer import answer, offer_json
from duly.cli.checks import Finding, Level, examine
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.tables import has_colour, painted
from duly.cli.target import chosen, offer_store
from duly.cli.words import one_line
from duly.urls import masked


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    offer_json(parser)


def run(args: Arguments) -> int:
    app = chosen(args)
    try:
        findings = examine(app)
    finally:
        app.close()
    is_well = all(finding.level is not Level.FAIL for finding in findings)
    document = {"ok": is_well, "url": masked(app.settings.url), "checks": [_row(each) for each in findings]}
    answer(args, document, text(findings))
    return Exit.OK if is_well else Exit.NO


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": str(finding.level),
        "found": masked(finding.found),
        "remedy": finding.remedy or None,
    }


def text(findings: Sequence[Finding]) -> str:
    """One line each; the remedy below, where one is needed."""
    width = max(len(finding.check) for finding in findings)
    colour = has_colour(sys.stdout)
    lines: list[str] = []
    for finding in findings:
        mark = f"{finding.level:<4}"
        lines.append(
            f"{painted(mark, str(finding.level)) if colour else mark}  {finding.check:<{width}}  "
            f"{one_line(masked(finding.found))}"
        )
        if finding.remedy:
            lines.append(f"{' ' * (8 + width)}→ {one_line(masked(finding.remedy))}")
    return "\n".join(lines)


DOCTOR = Command(
    description="Check store, schema, clock, workers and waiting work, and say what to do.",
    epilog="Exit code 1 if a check fails; warnings alone leave it 0.",
    arguments=arguments,
    run=run,
)
