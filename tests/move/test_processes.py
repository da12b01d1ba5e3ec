"""A whole move with real processes: workers that drain, late producers, movers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.stories import errands
from tests.stories.arrange import until
from tests.stories.conftest import PLACES, Place
from tests.stories.processes import ROOT, WorkerProcess

from duly import Duly, State
from duly.errors import StoreMoved
from duly.stores.contract import Scope, Switch
from duly.stores.house import House

PLACES_TO_LIVE: Final = [name for name in PLACES if name != "memory"]
WAYS: Final = list(permutations(PLACES_TO_LIVE, 2))
ROUND_TRIP: Final = [("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")]
STEPS: Final = ("received", "sealed", "shut", "batch", "carried", "checked", "departed")
DEATHS: Final = [
    *zip(ROUND_TRIP * 3, STEPS, strict=False),
    *((way, step) for way in ROUND_TRIP for step in ("batch", "departed")),
]
"""Every step somewhere, and those in the middle of a transfer everywhere."""
MANY: Final = 600
"""More than one batch, so that a mover killed after the first has something left."""
KILLED: Final = 137


class Way(NamedTuple):
    """From where to where, in a folder of its own."""

    source: Place
    target: Place
    folder: Path
    stack: ExitStack

    def app(self, place: Place) -> Duly:
        app = Duly(place.url, namespace=place.namespace, lease="30s", poll="50ms")
        app.tasks.update(errands.app.tasks)
        self.stack.callback(app.close)
        return app

    def move(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """`duly move`, as a person would call it."""
        spaces = ["--namespace", self.source.namespace, "--to-namespace", self.target.namespace]
        return subprocess.Popen(
            [sys.executable, "-m", "duly", "move", self.source.url, self.target.url, *spaces, *words],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def worker(self, place: Place, *words: str) -> WorkerProcess:
        log = self.folder / f"worker-{place.namespace}-{len(words)}.log"
        variables = {
            "DULY_URL": place.url,
            "DULY_NAMESPACE": place.namespace,
            "DULY_LEASE": "8s",
            "STORY_FOLDER": str(self.folder),
        }
        worker = WorkerProcess(log, *words, **variables)
        self.stack.callback(worker.end)
        return worker


@pytest.fixture
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Way]:
    monkeypatch.setenv("STORY_FOLDER", str(tmp_path))
    monkeypatch.delenv("DULY_URL", raising=False)
    places: list[Place] = []
    for side, name in zip(("source", "target"), request.param, strict=True):
        (tmp_path / side).mkdir()
        places.append(PLACES[name](tmp_path / side))
    with ExitStack() as stack:
        yield Way(places[0], places[1], tmp_path, stack)


def enqueue(app: Duly, task: Any, *calls: Any) -> None:
    """A task of the errands, on this store."""
    with errands.app.standing_in(app.store, app.clock):
        task.enqueue_many([((call,), {}) for call in calls])


def is_sealed(app: Duly) -> bool:
    store = app.store
    assert isinstance(store, House)
    return store.run(store.notice()) is not None


def every_way(ways: Sequence[tuple[str, ...]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", ways, indirect=True, ids=["-to-".join(one) for one in ways])


@every_way(WAYS)
def test_workers_drain_producers_are_told_and_every_job_runs_once(way: Way) -> None:
    source, target = way.app(way.source), way.app(way.target)
    quick = errands.quick.name
    enqueue(source, errands.slow, "gate")
    old = way.worker(way.source)
    until(lambda: errands.lines("started"))
    source.store.run(source.store.hold(Switch(Scope.TASK, quick, None)))
    enqueue(source, errands.quick, *range(30))

    mover = way.move("--wait", "60s")
    until(lambda: is_sealed(source))
    with pytest.raises(StoreMoved, match="has moved to"):
        enqueue(source, errands.quick, 99)
    (way.folder / "gate").touch()
    printed, _ = mover.communicate(timeout=100)

    assert mover.returncode == 0, printed
    assert old.wait(60) == 0
    assert "drains and ends: This store has moved to" in old.log
    target.store.run(target.store.free(Scope.TASK, quick))
    new = way.worker(way.target, "--burst")
    assert new.wait(60) == 0, new.log
    assert Counter(errands.lines("quick")) == Counter(str(number) for number in range(30))
    assert len(errands.lines("finished")) == 1
    assert target.jobs.count(state=State.DONE) == 31


@pytest.mark.parametrize(
    ("way", "step"), DEATHS, indirect=["way"], ids=[f"{'-to-'.join(way)}-{step}" for way, step in DEATHS]
)
def test_a_mover_killed_at_any_step_is_resumed_by_saying_the_same_again(way: Way, step: str) -> None:
    source, target = way.app(way.source), way.app(way.target)
    enqueue(source, errands.quick, *range(MANY))

    killed = way.move(DULY_FAILPOINTS=f"moving=exit task={step} nth=1")
    killed.communicate(timeout=100)
    lent_between = [work_off(app) for app in (source, target) if is_sealed(app)]
    resumed = way.move("--json")
    printed, _ = resumed.communicate(timeout=100)

    assert (killed.returncode, resumed.returncode) == (KILLED, 0), printed
    assert set(lent_between) <= {0}
    document = printed[printed.index("{") :]  # on a busy machine there is word of progress before it
    assert json.loads(document)["stage"] == "gone"
    assert work_off(target) == MANY
    assert Counter(errands.lines("quick")) == Counter(str(number) for number in range(MANY))


def work_off(app: Duly) -> int:
    """Run what is ready on this store; answers how many runs there were."""
    before = len(errands.lines("quick"))
    app.run(burst=True)
    return len(errands.lines("quick")) - before
