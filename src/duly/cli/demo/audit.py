"""The demo's own judge: what was asked for, against what the store and the ledger say was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.cli.demo.ledger import Entry, Ledger
from duly.cli.tables import table
from duly.cli.words import counted
from duly.job import Job, State

if TYPE_CHECKING:
    from duly.cli.demo.story import Outcome

EVERY = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The numbers of one demo."""

    seconds: float
    done: int
    expected: int
    retried: int
    recovered: int
    ticks_run: int
    ticks_expected: int
    cycles: int
    refused_by_store: int
    refused_by_ledger: int
    lost: list[str]
    doubled: list[str]
    exits: dict[str, int]

    @property
    def is_sound(self) -> bool:
        """Nothing lost, nothing doubled, and the harm that was done was really survived."""
        return not (self.lost or self.doubled or any(self.exits.values())) and (
            self.ticks_run == self.ticks_expected
            and self.done == self.expected
            and min(self.recovered, self.refused_by_store, self.refused_by_ledger, self.cycles) > 0
        )

    def document(self) -> dict[str, Any]:
        """The keys of `duly demo --json`."""
        return {
            "ok": self.is_sound,
            "seconds": round(self.seconds, 1),
            "one_off": {"expected": self.expected, "done": self.done},
            "retried": self.retried,
            "recovered": self.recovered,
            "ticks": {"expected": self.ticks_expected, "run": self.ticks_run},
            "perpetual_cycles": self.cycles,
            "refused": {"by_store": self.refused_by_store, "by_ledger": self.refused_by_ledger},
            "lost": self.lost,
            "doubled": self.doubled,
            "worker_exit_codes": self.exits,
        }


def audit(outcome: Outcome, folder: Path) -> Report:
    """Compare. A name in the ledger is one effect: exactly one finish is what was promised."""
    entries = Ledger(folder / "ledger").entries()
    wanted = [f"pack {order}" for order in outcome.orders] + [f"deliver {name}" for name in outcome.parcels]
    ticks = sorted(job.tick for job in outcome.jobs if job.tick is not None)
    strikes = [f"strike {tick.isoformat()}" for tick in due_ticks(ticks)]
    finished = Counter({name: entry.counts["finish"] for name, entry in entries.items()})
    one_off = [job for job in outcome.jobs if _kind(job) in ("pack", "deliver")]
    return Report(
        seconds=outcome.seconds,
        done=sum(job.state is State.DONE for job in one_off),
        expected=len(wanted),
        retried=sum(_has(job, "retry") for job in one_off),
        recovered=sum(_has(job, "lease ran out") or _has(job, "crash") for job in outcome.jobs),
        ticks_run=sum(finished[name] > 0 for name in strikes),
        ticks_expected=len(strikes),
        cycles=max((job.cycle for job in outcome.jobs if _kind(job) == "look_around"), default=0),
        refused_by_store=outcome.refused,
        refused_by_ledger=_refused(entries),
        lost=[name for name in [*wanted, *strikes] if not finished[name]],
        doubled=sorted(name for name, count in finished.items() if count > 1),
        exits=outcome.exits,
    )


def due_ticks(ticks: list[datetime]) -> list[datetime]:
    """Every second between the first tick and the last, whether it was run or not."""
    if not ticks:
        return []
    return [ticks[0] + EVERY * step for step in range((ticks[-1] - ticks[0]) // EVERY + 1)]


def _kind(job: Job) -> str:
    return job.task.rpartition(".")[2]


def _has(job: Job, event: str) -> bool:
    return any(line.event == event for line in job.history)


def _refused(entries: Mapping[str, Entry]) -> int:
    return sum(entry.counts["refused"] for entry in entries.values())


def text(report: Report) -> str:
    """The table at the end."""
    rows = [
        ["one-off tasks done", f"{report.done} of {report.expected}"],
        ["  of them tried again after a failure", str(report.retried)],
        ["runs lost with a worker and taken over", str(report.recovered)],
        ["ticks of the schedule run", f"{report.ticks_run} of {report.ticks_expected}"],
        ["rounds of the perpetual task", str(report.cycles)],
        ["late writes refused by the store", str(report.refused_by_store)],
        ["late writes refused by the ledger", str(report.refused_by_ledger)],
        ["effects lost", str(len(report.lost))],
        ["effects done twice", str(len(report.doubled))],
    ]
    return "\n".join(["", table(["what", f"after {report.seconds:.1f} s"], rows), "", _verdict(report)])


def _verdict(report: Report) -> str:
    if report.is_sound:
        return "Work, duly done: nothing lost, nothing done twice."
    trouble = [f"lost: {name}" for name in report.lost] + [f"done twice: {name}" for name in report.doubled]
    bad = {name: code for name, code in report.exits.items() if code}
    trouble += [f"{name} ended with code {code}" for name, code in bad.items()]
    named = "; ".join(trouble[:10]) or "see the table"
    return f"Not as it should be ({counted(len(trouble), 'finding')}): {named}"
