"""Where the measurements of the dashboard have their jobs, and how their command lines say it."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psycopg
from tests.servers import postgres_url
from tests.servers_redis import namespace_of, shared_url

STORES: Final = ("sqlite", "postgres", "redis")
TOKEN: Final = "the-token-of-the-benchmark"


class Place(NamedTuple):
    """Where the jobs are."""

    url: str
    namespace: str = "duly"


def parser(description: str | None, *, jobs: int) -> argparse.ArgumentParser:
    """`--stores`, or `--url` and `--namespace`; and how many `--jobs`."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--stores", nargs="*", choices=STORES, default=None)
    found.add_argument("--url", help="a store of one's own, which is kept")
    found.add_argument("--namespace", default="duly")
    found.add_argument("--jobs", type=int, default=jobs)
    return found


def places(given: argparse.Namespace) -> Generator[Place]:
    """Those that were asked for, one after the other."""
    if given.url:
        yield Place(given.url, given.namespace)
        return
    for kind in given.stores or STORES:
        with private(kind) as place:
            yield place


@contextmanager
def private(kind: str) -> Generator[Place]:
    """An empty store that is gone afterwards."""
    if kind == "redis":
        yield Place(shared_url(), namespace_of(Path("pages")))
    elif kind == "sqlite":
        with TemporaryDirectory(prefix="duly-bench-") as folder:
            yield Place(f"sqlite:///{Path(folder) / 'pages.db'}")
    else:
        yield Place(postgres_url(), "bench_pages")
        with psycopg.connect(postgres_url(), autocommit=True) as admin:
            admin.execute("drop schema bench_pages cascade")
