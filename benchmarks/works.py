"""The pieces of work, each for one system, on a fresh store; what is measured has a name in `figures.py`.

Every one is bounded: in jobs, and in the seconds it may take after its first job.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from benchmarks import place, processes
from benchmarks.contenders import DULY, POSTGRES, RAW, REDIS, SQLITE
from benchmarks.player import Broken, Player
from benchmarks.quantiles import quantile
from benchmarks.readings import Readings
from benchmarks.slots import SECOND, Slots
from benchmarks.studies import reactive, snapshot

Work = Callable[[Player], Readings]

SHORT: Final = 1.0
"""Seconds of calls in a row."""
DRAIN: Final = 2.0
"""Seconds of a drain after its first job."""
ONE_TABLE: Final = "one table"
SHARED_COMMITS: Final = "shared commits"
ALONE: Final = {
    POSTGRES: {"drain": "drain"},
    REDIS: {"drain": "drain", "pick-up p50": "latency"},
    SQLITE: {"enqueue": "enqueue", "drain": "drain", "exactly once": "exact"},
}
"""What is timed without a worker: where a goal might be missed, to tell the store's part from the rest."""
CLIENTS: Final = 8
CALLS: Final = 20_000
"""More than any system can enqueue in that time."""
PROMPT: Final = 300
DUE: Final = 5_000
IDLE: Final = 30.0
"""Seconds: what is done twice a minute is in it once."""
BACKLOGS: Final = {1_000: 5, DUE: 5, 20_000: 1, 200_000: 1, 1_000_000: 1}
"""How much is queued, and how often: the short ones several times. One is as long as a burst."""
SCHEDULES: Final = 1_000
TICKS: Final = 5
SWING: Final = 20
"""Seconds within which all schedules must have ticked once."""


# --- putting --------------------------------------------------------------------------------------


def enqueue(player: Player) -> Readings:
    player.prepare()
    return {"enqueue": player.call("enqueue", 0, CALLS, SHORT)["rate"]}


def clients(player: Player) -> Readings:
    """With the raw limit on SQLite, threads have a connection each, and once more they share commits."""
    found = {"enqueue, 8 threads": called_together(player)}
    if player.contender.name == RAW and player.store == SQLITE:
        player.variables[place.VARIANT] = SHARED_COMMITS
        found[f"enqueue, 8 threads, {SHARED_COMMITS}"] = called_together(player)
    return found


def called_together(player: Player) -> float:
    player.prepare()
    rate: float = player.call("clients", 0, CALLS, SHORT, CLIENTS)["rate"]
    return rate


def bulk(player: Player) -> Readings:
    player.prepare()
    rate = player.call("bulk", 0, min(player.contender.amount, 30_000))["rate"]
    return {} if rate is None else {"bulk": rate}


# --- draining -------------------------------------------------------------------------------------


def drain(player: Player) -> Readings:
    return drained_in_both_ways(player, "drain")


def drain2(player: Player) -> Readings:
    return drained_in_both_ways(player, "drain, 2 workers", workers=2)


def drained_in_both_ways(player: Player, name: str, workers: int = 1) -> Readings:
    """Of the raw limit on PostgreSQL also on one table, as most queues have it."""
    found = {name: drained(player, player.contender.amount, workers)}
    if player.contender.name == RAW and player.store == POSTGRES:
        player.variables[place.VARIANT] = ONE_TABLE
        found[f"{name}, {ONE_TABLE}"] = drained(player, player.contender.amount, workers)
    return found


def sync(player: Player) -> Readings:
    player.variables[place.TASK] = "noop_sync"
    return {"drain, sync tasks": drained(player, player.contender.amount)}


def millisecond(player: Player) -> Readings:
    player.variables[place.TASK] = "millisecond"
    return {"drain, sync tasks of 1 ms": drained(player, player.contender.amount // 2)}


def exact(player: Player) -> Readings:
    player.variables[place.TASK] = "effect"
    found = {"exactly once": drained(player, player.contender.amount // 3)}
    if player.contender.name == RAW and player.store == POSTGRES:
        player.variables[place.VARIANT] = "alone"
        found["exactly once, 1 connection"] = drained(player, player.contender.amount // 3)
    return found


def alone(player: Player) -> Readings:
    """The store's part of Duly's work by itself, as `benchmarks/alone.py` says."""
    found = Readings()
    for name, command in ALONE[player.store].items():
        player.variables[place.TASK] = "effect" if command == "exact" else "noop"
        player.prepare()
        player.call("fill", 0, 0 if command in ("enqueue", "latency") else player.contender.amount)
        answer = player.call(command, 0, player.contender.amount, SHORT, module="benchmarks.alone")
        found[f"{name}, store alone"] = answer[command]
    return found


def backlog(player: Player) -> Readings:
    """The drain rate of the first seconds, by how much is queued."""
    found = Readings()
    for size, times in BACKLOGS.items():
        if size > player.slots.amount:
            break
        rates = [drained(player, size) for _ in range(times)]
        found[f"drain, {size:,} queued"] = quantile(rates, 0.5) or 0.0
    return found


def drained(player: Player, amount: int, workers: int = 1) -> float:
    """Fill, then start; from the first body to the last, once every worker has run one."""
    player.prepare()
    player.slots.forget(amount)
    player.call("fill", 0, amount)
    for _ in range(workers):
        player.start()
    player.slots.wait(0, amount, at_most=DRAIN)
    player.stop()
    rate = player.slots.rate(0, amount)
    if not rate:
        raise Broken(f"fewer than two jobs ran: {player.last_words()}")
    return rate


# --- waiting --------------------------------------------------------------------------------------


def latency(player: Player) -> Readings:
    """Of the raw limit only the wake-up."""
    if player.contender.name == RAW:
        player.variables[place.TASK] = "wake"
    waiting(player)
    found = player.call("latency", PROMPT, PROMPT, 2 * SHORT)
    return {f"pick-up p{part}": found[f"p{part}"] for part in (50, 95, 99)}


def due(player: Player) -> Readings:
    """Many jobs for one whole second: how late the first, the median and the last start."""
    waiting(player)
    amount = min(DUE, player.contender.amount)
    calls = 2_000 if player.contender.name != DULY and player.store != POSTGRES else 10_000
    moment = math.ceil(time.time_ns() / SECOND + 1.5 + amount / calls)
    left = player.call("schedule", PROMPT, amount, moment)["left"]
    if left < 0:
        raise Broken(f"enqueueing took {-left:.1f} s longer than the jobs had until they were due")
    player.slots.wait(PROMPT, amount, at_most=3 * DRAIN, patience=left + 5)
    offset = time.time_ns() - time.monotonic_ns() - moment * SECOND
    late = [(when + offset) / 1e6 for when in player.slots.stamps(PROMPT, amount)]
    if len(late) < amount:
        raise Broken(f"{len(late):,} of {amount:,} jobs ran within {3 * DRAIN:g} s")
    return {
        "due: first": late[0],
        "due: p50": quantile(late, 0.5) or 0.0,
        "due: last": late[-1],
        "due: rate": (amount - 1) * 1e3 / (late[-1] - late[0]),
    }


def waiting(player: Player) -> None:
    """A worker that has run a few jobs and has nothing to do."""
    player.prepare()
    player.start()
    if player.contender.name == RAW:
        time.sleep(1.0)  # its bell keeps nothing for those who come late
    player.call("enqueue", 0, 20, SHORT)
    if not player.slots.wait(0, 1, at_most=5.0):
        raise Broken(f"the worker never ran its first job: {player.last_words()}")
    time.sleep(0.5)


def idle(player: Player) -> Readings:
    player.prepare()
    if player.store == POSTGRES:
        player.stage.postgres.log_statements(player.contender.label)
    leader = player.start()
    player.call("enqueue", 0, 5, SHORT)
    if not player.slots.wait(0, 1, at_most=5.0):
        raise Broken(f"the worker never ran its first job: {player.last_words()}")
    time.sleep(2.0)
    before, said = processes.cost(leader), statements(player)
    time.sleep(IDLE)
    after, now_said = processes.cost(leader), statements(player)
    found = {
        "idle: processor": 100 * (after.seconds - before.seconds) / IDLE,
        "idle: memory": after.megabytes,
    }
    if said is None or now_said is None:
        return found
    return found | {"idle: statements": (now_said - said) / IDLE}


def statements(player: Player) -> int | None:
    """What the store was asked so far; a file is asked by nobody one could ask."""
    if player.store == POSTGRES:
        return player.stage.postgres.statements()
    return player.stage.redis.statements() if player.store == REDIS else None


def start(player: Player) -> Readings:
    """How long `import duly` takes, and a worker from its start to the first body."""
    taken = [imported(player) - bare(player) for _ in range(5)]
    ready = [readied(player) for _ in range(3)]
    return {"import duly": quantile(taken, 0.5) or 0.0, "worker ready": quantile(ready, 0.5) or 0.0}


def imported(player: Player) -> float:
    return run_for(player, "import duly")


def bare(player: Player) -> float:
    return run_for(player, "pass")


def run_for(player: Player, code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=place.ROOT, env=player.environment, check=True)
    return (time.perf_counter() - began) * 1e3


def readied(player: Player) -> float:
    """The program itself, without the harness's own interpreter in front of it."""
    player.prepare()
    player.slots.forget(1)
    player.call("fill", 0, 1)
    began = time.monotonic_ns()
    player.start(program=[os.path.join(os.path.dirname(sys.executable), "duly"), *DULY_WORKER])
    if not player.slots.wait(0, 1, at_most=5.0):
        raise Broken("the worker never ran its first job")
    player.stop()
    return (player.slots.times[0] - began) / 1e6


DULY_WORKER: Final = ("worker", "benchmarks.duly_app:app")


def schedules(player: Player) -> Readings:
    """A thousand schedules, each ticking every second: how late ticks start, and how many did."""
    origin = time.time_ns() // SECOND
    player.variables |= {place.SCHEDULES: str(SCHEDULES), place.ORIGIN: str(origin)}
    player.prepare()
    began, leader = time.monotonic(), player.start()
    second = at_full_swing(player.slots, began)
    ready = time.monotonic() - began
    before = processes.cost(leader)
    time.sleep(TICKS)
    after = processes.cost(leader)
    time.sleep(1.0)
    offset = time.time_ns() - time.monotonic_ns() - origin * SECOND
    window = range(second * SCHEDULES, (second + TICKS) * SCHEDULES)
    late = [
        (when + offset) / 1e6 - 1e3 * (number // SCHEDULES)
        for number in window
        if (when := player.slots.times[number])
    ]
    return {
        "schedules: ready after": ready,
        "schedules: ticks run": 100 * len(late) / len(window),
        "schedules: late p50": quantile(late, 0.5) or 0.0,
        "schedules: late p99": quantile(late, 0.99) or 0.0,
        "schedules: processor": 100 * (after.seconds - before.seconds) / TICKS,
    }


def at_full_swing(slots: Slots, began: float) -> int:
    """Wait until every schedule has ticked; answers the first whole second after that, from the origin."""
    whole = SCHEDULES * SWING
    while slots.ran(0, whole) < SCHEDULES:
        if time.monotonic() - began > SWING:
            raise Broken(f"{slots.ran(0, whole):,} ticks of {SCHEDULES:,} schedules in {SWING} s")
        time.sleep(0.1)
    latest = max(number for number in range(whole) if slots.times[number])
    return latest // SCHEDULES + 1


WORKS: Final[dict[str, Work]] = {
    "enqueue": enqueue,
    "clients": clients,
    "bulk": bulk,
    "drain": drain,
    "drain2": drain2,
    "sync": sync,
    "millisecond": millisecond,
    "latency": latency,
    "due": due,
    "exact": exact,
    "alone": alone,
    "start": start,
    "schedules": schedules,
    "backlog": backlog,
    "idle": idle,
    "snapshot": snapshot,
    "reactive": reactive,
}
EVERY_WORK: Final = tuple(WORKS)
LONG: Final = frozenset({"backlog", "idle", "millisecond", "schedules", "snapshot", "start", "reactive"})
"""Measured once: they last long, or hardly vary."""


def slots_for(work: str, player_amount: int, *, most: int) -> int:
    """How many jobs a piece of work may number."""
    if work in ("enqueue", "clients"):
        return CALLS * CLIENTS
    return most if work == "backlog" else max(player_amount, PROMPT + DUE, SCHEDULES * (SWING + TICKS + 5))
