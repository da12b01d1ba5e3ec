"""Writers change rows while workers are killed and frozen: each row is dealt with as it ends up."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from tests.stories import followers
from tests.stories.arrange import until
from tests.stories.conftest import Place
from tests.stories.desk import Desk
from tests.stories.processes import Crew, WorkerProcess

from duly import Duly

ROWS: Final = 30
WRITERS: Final = 4
SECONDS: Final = 6.0
STATUSES: Final = ("paid", "paid", "paid", "refunded")


@pytest.fixture
def desk(exact_place: Place, exact_app: Duly) -> Generator[Desk, None, None]:
    made = Desk(exact_place.url, f"orders_{exact_place.namespace}")
    yield made
    made.drop()


class Writers:
    """Threads that change rows and remember what they committed; each has rows of its own."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.committed: set[tuple[int, int]] = set()
        self.relevant: Counter[int] = Counter()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(seed,)) for seed in range(WRITERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)
        total = seed * 100_000
        with self._desk.connect() as connection:
            while not self._is_over.is_set():
                number = chance.randrange(seed, ROWS, WRITERS)
                total += 1
                status = chance.choice(STATUSES)
                self.committed.add((number, total))  # before: a worker may see it before we hear of it
                connection.execute(
                    f"update {self._desk.table} set status = '{status}', total = {total} where id = {number}"
                )
                self.relevant[number] += 1
                time.sleep(chance.random() * 0.03)


def test_the_last_run_of_each_row_saw_its_last_committed_values(
    exact_place: Place, exact_app: Duly, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers.prepare(monkeypatch, exact_place.url, desk.table, tmp_path)
    crew = Crew(exact_app, tmp_path)
    for number in range(ROWS):
        desk.order(number, "new", total=-1)
    workers = [start(tmp_path, index) for index in range(3)]
    writers = Writers(desk)
    writers.start()
    try:
        disturb(crew, workers, tmp_path)
        writers.join()
        until(lambda: is_calm(exact_app, desk), 30)
    finally:
        writers.join()
        for worker in workers:
            worker.end()

    saw = [(int(number), int(total)) for number, total in map(str.split, followers.lines(tmp_path, "saw"))]
    final = set(desk.say(f"select id, total from {desk.table} where status = 'paid'"))
    assert final
    assert final <= set(saw)  # totals never repeat, so whoever saw the last one was the last to succeed
    assert set(saw) <= writers.committed
    runs = Counter(number for number, _ in saw)
    assert all(runs[number] <= writers.relevant[number] + 6 for number in runs)  # six: the deaths and freezes


def start(folder: Path, index: int) -> WorkerProcess:
    return WorkerProcess(folder / f"follower-{index}.log", target=followers.TARGET)


def disturb(crew: Crew, workers: list[WorkerProcess], folder: Path) -> None:
    """Kill one, freeze another past its lease, and so on, until the time is over."""
    ends = time.monotonic() + SECONDS
    until(lambda: followers.lines(folder, "saw"), 20)
    turn = 0
    while time.monotonic() < ends:
        victim = workers[turn % len(workers)]
        if turn % 2:
            crew.freeze(victim)
            time.sleep(2.5)
            victim.thaw()
        else:
            victim.kill()
            workers[turn % len(workers)] = start(folder, 10 + turn)
            time.sleep(0.5)
        turn += 1


def is_calm(app: Duly, desk: Desk) -> bool:
    """Nothing waits or runs, and no change is left to be planned."""
    changes = "duly_change" if desk.is_sqlite else f"{app.settings.namespace}.change"
    ((left,),) = desk.say(f"select count(*) from {changes}")
    return left == 0 and app.jobs.count(state="waiting") + app.jobs.count(state="running") == 0
