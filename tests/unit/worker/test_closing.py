"""The end of a run inside a transaction, act by act: here the acts are answered, not done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.worker.arrange import holding_of

from duly import Duly
from duly.lifecycle import Release, Settled
from duly.worker.endings import DONE, Concluded
from duly.worker.transaction import Closing, Commit, Counter, Finish, Settle


@pytest.fixture
def acts(tmp_path: Path) -> Iterator[Closing]:
    """Of a run whose body has returned."""
    app = Duly(f"sqlite:///{tmp_path / 'duly.db'}")
    counter = Counter(app, "w1")
    transaction = counter.source.lend("run-1")
    yield counter.closing(Concluded(holding_of(app), DONE, has_returned=True), transaction)
    transaction.give_back()
    counter.close()
    app.close()


def ended(acts: Closing, answer: object) -> Concluded:
    with pytest.raises(StopIteration) as stop:
        acts.send(answer)
    concluded: Concluded = stop.value.value
    return concluded


def test_a_run_that_could_end_in_one_step_has_ended(acts: Closing) -> None:
    assert isinstance(next(acts), Finish)

    assert ended(acts, True).answer is Settled.SETTLED


def test_a_run_that_could_not_end_in_one_step_is_settled_and_then_committed(acts: Closing) -> None:
    next(acts)

    assert isinstance(acts.send(False), Settle)
    assert isinstance(acts.send([Settled.SETTLED]), Commit)
    assert ended(acts, None).answer is Settled.SETTLED


def test_a_run_that_is_refused_at_its_settling_is_not_committed(acts: Closing) -> None:
    next(acts)
    acts.send(False)

    refused = ended(acts, [Settled.LOST])

    assert refused.answer is None
    assert isinstance(refused.verdict, Release)
