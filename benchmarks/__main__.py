"""Duly, its peers and what the stores allow, measured in turn in one run.

    python -m benchmarks                  everything, three times: tables, JSON and a chart in build/bench
    python -m benchmarks --quick          Duly, the best peer of each store and the limit, once
    python -m benchmarks --only Duly --work drain --stores postgres --reps 5

A run that was broken off goes on with --resume. With --only, --work or --stores the other figures of the file
stay.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import chart, place, report
from benchmarks.contenders import QUICK, STORES, chosen
from benchmarks.environments import Environments
from benchmarks.figures import Figures, load, save
from benchmarks.match import Match
from benchmarks.works import EVERY_WORK

QUICK_WORKS = ("enqueue", "bulk", "drain", "latency")
QUICK_STORES = ("postgres", "redis", "sqlite")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Duly, its peers and the limits, measured in turn."
    )
    parser.add_argument("--quick", action="store_true", help="the best peer of each store, once")
    parser.add_argument("--only", nargs="+", default=[], metavar="SYSTEM", help="only these systems")
    parser.add_argument("--work", nargs="+", default=[], choices=EVERY_WORK, help="only this work")
    parser.add_argument("--stores", nargs="+", default=[], choices=STORES, help="only these stores")
    parser.add_argument("--reps", type=int, help="how often (3)")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="the most jobs that are queued")
    parser.add_argument("--resume", action="store_true", help="leave out what the file has already")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where the figures go")
    parser.add_argument("--cache", type=Path, help="where the systems are installed (OUT/environments)")
    parser.add_argument("--page", type=Path, help="a page to write the tables into, between two marks")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the report again")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    given = arguments().parse_args(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that workers and servers end too
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "results.json"
    is_part = given.resume or given.only or given.work or given.stores or given.report
    figures = load(path) if is_part else Figures()
    if not given.report:
        began = time.monotonic()
        try:
            measure(given, figures, path)
        except KeyboardInterrupt:
            print(f"broken off; {path} has what was measured, --resume goes on", file=sys.stderr)
            return 130
        print(f"measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    write(given, figures)
    return 0


def measure(given: argparse.Namespace, figures: Figures, path: Path) -> None:
    works = given.work or (QUICK_WORKS if given.quick else EVERY_WORK)
    stores = given.stores or (QUICK_STORES if given.quick else ())
    only = given.only or (sorted(QUICK) if given.quick else ())
    match = Match(
        contenders=chosen(only=only, stores=stores, works=works),
        environments=Environments((given.cache or given.out / "environments").resolve()),
        figures=figures,
        backlog=given.backlog,
        is_resumed=given.resume,
        folder=given.out.resolve(),
        keep=lambda: save(figures, path),
    )
    match.play(works, given.reps or (1 if given.quick else 3))


def write(given: argparse.Namespace, figures: Figures) -> None:
    """The report, on the screen too; the chart; and the page, if one was named."""
    text = report.report(figures)
    (given.out / "report.md").write_text(text, encoding="utf-8")
    (given.out / "chart.svg").write_text(chart.chart(figures), encoding="utf-8")
    if given.page:
        insert(given.page, text)
    print(text)
    for line in report.unmet(figures):
        print(f"not met: {line}")
    print(f"written to {given.out}: report.md, results.json, chart.svg")


def insert(page: Path, text: str) -> None:
    """Between the two marks of a page; its chart beside its other images."""
    before, found, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise SystemExit(f"{page} has no {BEGIN} and {END} to write between.")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(place.ROOT))
    sys.exit(main())
