"""Work that has a program of its own: claims under a held snapshot, and tasks that follow a table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Final

from benchmarks import place
from benchmarks.contenders import POSTGRES
from benchmarks.player import Broken, Player
from benchmarks.readings import Readings

ELSEWHERE: Final = "DULY_TEST_POSTGRES_URL"
"""By it the programs find the durable server."""
PATIENCE: Final = 240.0
SCALE: Final = "0.5"
CHANGES: Final = 100_000


def snapshot(player: Player) -> Readings:
    """How much dearer a claim is while somebody holds an old snapshot; the worst of several cases counts."""
    player.prepare()
    words = ["--stores", "postgres", "--only", "snapshot", "--scale", SCALE]
    told = program(player, "claim_latency", *words)
    ratios = [float(row.split("|")[5].strip(" !")) for row in told.splitlines() if "snapshot held" in row]
    return {"claim under a held snapshot": max(ratios)}


def reactive(player: Player) -> Readings:
    """Following a table: what its writers pay, how fast changes become jobs, and what others notice of it."""
    player.prepare()
    cost = program(player, "reactive_update", "--url", player.url, "--rows", str(CHANGES))
    player.prepare()
    store = "postgres" if player.store == POSTGRES else "sqlite"
    notice = program(player, "reactive_latency", "--stores", store, "--rows", str(CHANGES))
    runs, seconds = found(r"([\d,]+) runs planned in ([\d.]+) s", cost)
    return {
        "update of a followed table": float(found(r"ratio ([\d.]+)", cost)[0]),
        "changes planned": float(runs.replace(",", "")) / max(0.1, float(seconds)),
        "pick-up while planning": float(found(r"ratio ([\d.]+)", notice)[0]),
    }


def program(player: Player, name: str, *words: str) -> str:
    """What one of the other benchmarks says, on the store of the player."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words],
        cwd=place.ROOT,
        env=os.environ | {ELSEWHERE: player.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise Broken(f"{name} ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return done.stdout


def found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise Broken(f"no {pattern!r} in {text[-200:]!r}")
    return match.groups()
