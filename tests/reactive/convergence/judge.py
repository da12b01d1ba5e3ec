"""The judgement: what the files of a run say, and whether that is what was promised.

python -m tests.reactive.convergence.judge DIR
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

Row = tuple[str, int] | None
TASKS: Final = ("receipt", "book")
EXCUSED: Final = frozenset({"release", "defer", "retry", "crash", "lease ran out"})
"""Ends of a run, by the job's own history, after which it is lent again: a worker frozen with the file in
its hand costs others their leases, too."""


class Version(NamedTuple):
    """What a commit left of one key."""

    revision: int
    row: Row
    effects: int
    """Effects of the key that were committed before it."""

    @property
    def matches(self) -> bool:
        return self.row is not None and self.row[0] == "paid"


@dataclass(slots=True)
class Trail:
    """What bodies wrote down about one claim of a job."""

    process: str
    values: Row = None
    saw: Row = None
    closed: str | None = None
    at: float = 0.0


@dataclass(slots=True)
class History:
    """Everything that was written down."""

    versions: dict[int, list[Version]] = field(default_factory=lambda: defaultdict(list))
    runs: dict[tuple[str, int], dict[tuple[str, int], Trail]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By task and key, then by job and epoch."""
    jobs: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    effects: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    retried: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    struck: set[str] = field(default_factory=set[str])
    """Processes that were killed or frozen."""
    faults: Counter[str] = field(default_factory=Counter[str])
    is_quiet: bool = False
    longest: float = 0.0


def read(folder: Path) -> History:
    """From the files, in the order in which things happened."""
    lines = [(path.name, line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    events = [(name.partition(".")[0], json.loads(line)) for name, line in lines]
    history = History()
    for process, event in sorted(events, key=lambda one: one[1]["at"]):
        _note(history, process, event)
    for versions in history.versions.values():
        versions.sort()
    return history


def _note(history: History, process: str, event: dict[str, Any]) -> None:
    match event["kind"]:
        case "commit":
            for one in event["changes"]:
                row = None if one["row"] is None else (one["row"][0], one["row"][1])
                history.versions[one["key"]].append(Version(one["revision"], row, one["effects"]))
        case "start":
            values = (event["values"]["status"], event["values"]["total"])
            _runs(history, event)[event["id"], event["epoch"]] = Trail(process, values, at=event["at"])
        case "saw":
            _trail(history, event).saw = (event["status"], event["total"])
        case "raised" | "skipped" | "end":
            _trail(history, event).closed = event["kind"]
        case "job":
            history.jobs[event["task"], event["key"]].append(event)
        case "row":
            history.rows[event["key"]] = (event["row"][0], event["row"][1])
        case "effect":
            history.effects[event["key"]].append(event["total"])
        case "kill" | "freeze" | "operator" | "rested" | "over":
            _note_around(history, event)
        case _:
            pass


def _note_around(history: History, event: dict[str, Any]) -> None:
    match event["kind"]:
        case "operator":
            history.retried[event["task"], event["key"]] += 1
        case "rested":
            history.is_quiet = event["is_quiet"]
        case "over":
            history.longest = event["longest_statement"]
        case _ if event["who"] is not None:
            history.struck.add(event["who"])
            history.faults[event["kind"]] += 1
        case _:
            pass


def _runs(history: History, event: dict[str, Any]) -> dict[tuple[str, int], Trail]:
    return history.runs[event["task"], event["key"]]


def _trail(history: History, event: dict[str, Any]) -> Trail:
    return _runs(history, event)[event["id"], event["epoch"]]


# --- what must hold -------------------------------------------------------------------------------


def judge(history: History) -> list[str]:
    """Every way in which it does not hold."""
    found = [] if history.is_quiet else ["REST: work was left when everything should have been over"]
    found += _faithful(history)
    for task in TASKS:
        for key, versions in history.versions.items():
            found += _converged(history, task, key, versions)
            found += _real(history, task, key, versions)
            found += _bounded(history, task, key, versions)
    for key, versions in history.versions.items():
        found += _effects(history, key, versions)
    return found


def _faithful(history: History) -> Iterator[str]:
    """The history itself: no revision is missing, and the last one is what the table has."""
    for key, versions in history.versions.items():
        if [one.revision for one in versions] != list(range(1, len(versions) + 1)):
            yield f"HISTORY: key {key} has revisions {[one.revision for one in versions]}"
        if versions[-1].row != history.rows.get(key):
            yield f"HISTORY: key {key} is {history.rows.get(key)}, and was last {versions[-1]}"


def _converged(history: History, task: str, key: int, versions: list[Version]) -> Iterator[str]:
    """The last successful run of a matching document saw its last committed watched values."""
    if not versions[-1].matches:
        return
    done = [job for job in history.jobs[task, key] if job["state"] == "done"]
    if not done:
        yield f"CONVERGE: {task} {key} is {versions[-1].row}, and no run succeeded"
        return
    last = max(done, key=lambda job: int(job["generation"]))
    trail = history.runs[task, key].get((last["id"], last["epoch"]))
    if trail is None or trail.saw != versions[-1].row:
        yield f"CONVERGE: {task} {key} is {versions[-1].row}, and its last run {last['id']} saw {trail}"


def _real(history: History, task: str, key: int, versions: list[Version]) -> Iterator[str]:
    """No run saw a version that was never committed."""
    committed = {one.row for one in versions if one.matches}
    for name, trail in history.runs[task, key].items():
        if trail.values not in committed or (trail.saw is not None and trail.saw not in committed):
            yield f"PHANTOM: {task} {key}: {name} saw {trail}, which was never committed"
        if trail.saw is not None and trail.saw != trail.values:
            yield f"STALE: {task} {key}: {name} was planned for {trail.values} and read {trail.saw}"


def relevant(versions: list[Version]) -> list[Version]:
    """Commits that call for a run: the row matches, and is not what it was before."""
    before = [None, *[one.row for one in versions]]
    return [one for one, row in zip(versions, before, strict=False) if one.matches and one.row != row]


def _bounded(history: History, task: str, key: int, versions: list[Version]) -> Iterator[str]:
    """Runs per document are at most relevant commits, retries and re-runs after a crash."""
    jobs = history.jobs[task, key]
    allowed = len(relevant(versions)) + history.retried[task, key]
    if len(jobs) > allowed:
        yield f"TOO MANY: {task} {key} has {len(jobs)} jobs for {allowed} commits that call for one"
    runs = history.runs[task, key]
    unknown = {job for job, _ in runs} - {job["id"] for job in jobs}
    if unknown:
        yield f"HISTORY: {task} {key} has runs of jobs {unknown} that the store does not know"
    for job in jobs:
        yield from _explained(
            history, task, job, {epoch: runs[one, epoch] for one, epoch in runs if one == job["id"]}
        )


def _explained(history: History, task: str, job: dict[str, Any], runs: dict[int, Trail]) -> Iterator[str]:
    """A job that ran again was tried again, put off, or lost its worker."""
    excused = {epoch for event, epoch, _ in job["events"] if event in EXCUSED}
    for epoch in sorted(runs)[:-1]:
        trail = runs[epoch]
        is_struck = trail.process in history.struck
        if not (trail.closed in (None, "raised") or is_struck or epoch in excused):
            yield f"TWICE: {task} {job['key']}: job {job['id']} ran again after epoch {epoch}, {trail}"


def _effects(history: History, key: int, versions: list[Version]) -> Iterator[str]:
    """One effect for a version at most, one for the last, and none after its version was over."""
    effects = Counter(history.effects[key])
    since = {one.row[1]: one.revision for one in reversed(versions) if one.row is not None and one.matches}
    for total, count in effects.items():
        if count > 1 or total not in since:
            yield f"EFFECT: key {key} has {count} effects for {total}, committed at {since.get(total)}"
    last = versions[-1]
    if last.matches and last.row is not None and not effects[last.row[1]]:
        yield f"EFFECT: key {key} is {last.row}, and there is no effect for it"
    before: Row = None
    for one in versions:
        earlier = sum(count for total, count in effects.items() if since.get(total, 0) < one.revision)
        if one.row != before and earlier != one.effects:
            yield f"STALE EFFECT: key {key}: {earlier} effects for versions before {one}"
        before = one.row


def sizes(history: History) -> str:
    """How much was judged."""
    trails = [trail for runs in history.runs.values() for trail in runs.values()]
    closed = Counter(trail.closed or "cut off" for trail in trails)
    commits = sum(len(versions) for versions in history.versions.values())
    wanted = sum(len(relevant(versions)) for versions in history.versions.values())
    return (
        f"{commits:,} commits ({wanted:,} call for a run), {len(trails):,} runs: "
        + ", ".join(f"{count:,} {name}" for name, count in closed.most_common())
        + f"; {sum(map(len, history.effects.values())):,} effects; "
        + ", ".join(f"{count} {name}s" for name, count in history.faults.items())
        + f"; {sum(history.retried.values())} retried by hand; "
        f"longest statement of a user {history.longest * 1000:.0f} ms"
    )


def main() -> int:
    history = read(Path(sys.argv[1]))
    found = judge(history)
    print(sizes(history))
    for one in found[:20]:
        print(one)
    kinds = Counter(one.partition(":")[0] for one in found)
    print(f"VIOLATED: {dict(kinds)}" if found else "it has converged")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
