"""Who takes part: the systems, the store each runs on, and how much work suits it.

The amount is about what a system drains in two seconds; a piece of work is cut off after a few in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DULY: Final = "Duly"
RAW: Final = "raw limit"

POSTGRES: Final = "postgres"
REDIS: Final = "redis"
SQLITE: Final = "sqlite"
ROLLBACK: Final = "sqlite, rollback journal"

DURABILITY: Final = {
    POSTGRES: "PostgreSQL, fsync and synchronous_commit on",
    REDIS: "Redis, no AOF: nothing is on disk when a call returns",
    SQLITE: "SQLite, WAL, synchronous=FULL",
    ROLLBACK: "SQLite, rollback journal, synchronous=FULL",
}
STORES: Final = tuple(DURABILITY)

FEW: Final = ("enqueue", "bulk", "drain", "latency", "idle")
ALL: Final = (*FEW, "clients", "drain2", "due")
OWN: Final = (*ALL, "alone", "sync", "millisecond", "backlog", "start", "schedules")
WITH_EFFECTS: Final = (*OWN, "exact", "reactive")
LIMITS: Final = ("enqueue", "clients", "bulk", "drain", "drain2", "latency")


@dataclass(frozen=True)
class Contender:
    """A system on a store."""

    name: str
    store: str
    adapter: str
    amount: int
    packages: tuple[str, ...] = ()
    works: tuple[str, ...] = FEW
    variant: str = ""

    @property
    def environment(self) -> str:
        """The limits of all stores share one."""
        return "raw" if self.name == RAW else self.adapter.rpartition(".")[2]

    @property
    def label(self) -> str:
        """A name that fits a database, a file and a log."""
        return "".join(char if char.isalnum() else "_" for char in f"bench_{self.name}_{self.store}".lower())


def duly(store: str, works: tuple[str, ...]) -> Contender:
    return Contender(DULY, store, "benchmarks.duly_adapter", 240_000, works=works)


def raw(store: str, works: tuple[str, ...] = LIMITS) -> Contender:
    packages = ("psycopg[binary]", "asyncpg", "redis", "hiredis")
    module = "sqlite" if store == ROLLBACK else store
    return Contender(RAW, store, f"benchmarks.raw.{module}", 240_000, packages, works)


def peer(
    name: str,
    store: str,
    amount: int,
    *packages: str,
    module: str = "",
    works: tuple[str, ...] = FEW,
    variant: str = "",
) -> Contender:
    adapter = f"benchmarks.peers.{module or name.lower()}"
    return Contender(name, store, adapter, amount, packages, works, variant)


HUEY: Final = ("huey", "redis", "hiredis")
PSYCOPG: Final = "psycopg[binary,pool]"

CONTENDERS: Final = (
    duly(POSTGRES, (*WITH_EFFECTS, "snapshot")),
    raw(POSTGRES, (*LIMITS, "exact")),
    peer("PgQueuer", POSTGRES, 16_000, "pgqueuer[asyncpg]", "asyncpg", "uvloop", works=ALL),
    peer("Procrastinate", POSTGRES, 1_000, "procrastinate", PSYCOPG),
    peer("Chancy", POSTGRES, 6_000, "chancy[cli]", "psycopg[binary]"),
    peer("Oban", POSTGRES, 5_000, "oban", "psycopg[binary]", "uvloop"),
    peer("DBOS", POSTGRES, 800, "dbos", "psycopg[binary]"),
    duly(REDIS, OWN),
    raw(REDIS),
    peer("Dramatiq", REDIS, 4_000, "dramatiq[redis]", "hiredis", works=ALL),
    peer("Huey", REDIS, 4_000, *HUEY, works=ALL),
    peer("taskiq", REDIS, 3_000, "taskiq[orjson,uv]", "taskiq-redis", "hiredis"),
    peer("SAQ", REDIS, 2_500, "saq[hiredis,redis]", "typing-extensions"),
    peer("Docket", REDIS, 2_500, "pydocket", "hiredis"),
    peer("arq", REDIS, 2_000, "arq", "hiredis"),
    peer("RQ", REDIS, 1_500, "rq", "hiredis"),
    peer("Celery", REDIS, 1_500, "celery[redis]", "hiredis"),
    peer("Celery, threads", REDIS, 1_500, "celery[redis]", "hiredis", module="celery", variant="threads"),
    duly(SQLITE, WITH_EFFECTS),
    raw(SQLITE, (*LIMITS, "exact")),
    peer("Huey", SQLITE, 4_000, *HUEY, works=ALL),
    duly(ROLLBACK, ("enqueue", "clients", "bulk", "drain", "drain2", "latency", "exact")),
    raw(ROLLBACK, ("enqueue", "clients", "bulk", "drain", "drain2", "exact")),
)
QUICK: Final = frozenset({DULY, RAW, "PgQueuer", "Dramatiq", "Huey"})
"""The best peer of each store, beside Duly and the limit."""


def chosen(
    *, only: Sequence[str] = (), stores: Sequence[str] = (), works: Sequence[str] = ()
) -> list[Contender]:
    """Those that were asked for; with nothing said, all."""
    wanted = {name.lower() for name in only}
    return [
        each
        for each in CONTENDERS
        if (not wanted or each.name.lower() in wanted)
        and (not stores or each.store in stores)
        and (not works or set(works) & set(each.works))
    ]
