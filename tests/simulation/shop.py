"""The application of the plays: one task of every kind, with bodies whose luck is drawn from the dice."""

from __future__ import annotations

from typing import Final

from tests.simulation.machinery import Dies
from tests.simulation.stage import Stage
from tests.simulation.witness import Limits, Witness

from duly import Duly, Retry, Run
from duly.errors import LeaseLost

LIMITS: Final = {
    "plain": Limits(attempts=3),
    "once": Limits(once=True),
    "keyed": Limits(attempts=3),
    "limited": Limits(concurrency=2),
    "poison": Limits(attempts=100),
    "poll": Limits(attempts=100),
    "tick": Limits(),
}
POLL_EVERY: Final = "3s"
TICK_EVERY: Final = "2s"


class Unlucky(Exception):
    """What a body raises when the dice say so."""


class Body:
    """A body in a world of dice: it takes a few steps, heeds its orders, and ends one way or another."""

    def __init__(self, stage: Stage, witness: Witness) -> None:
        self._stage = stage
        self._witness = witness

    def run(self, run: Run, *, fails: float = 0.0, defers: float = 0.0, dies: float = 0.0) -> None:
        dice = self._stage.dice
        fence = self._witness.started(run)
        for _ in range(dice.randint(1, 3)):
            self._stage.pause(dice.expovariate(2.5))
            self._witness.goes_on(run)
            if run.cancelled:
                raise LeaseLost("told to stop")
        luck = dice.random()
        if luck < fails:
            raise Unlucky(f"{luck:.3f}")
        if luck < fails + dies:
            raise Dies
        if luck < fails + dies + defers:
            run.defer("700ms")
            return
        self._witness.finished(fence)


def define(app: Duly, body: Body) -> None:
    """The tasks, on one process's application."""
    retry = Retry(on=Unlucky, attempts=3, backoff="fixed", first="400ms")

    @app.task(name="plain", retry=retry)
    def plain(run: Run, number: int) -> None:
        body.run(run, fails=0.2, defers=0.1)

    @app.task(name="once", delivery="at_most_once")
    def once(run: Run, number: int) -> None:
        body.run(run, fails=0.1)

    @app.task(name="keyed", retry=retry)
    def keyed(run: Run, number: int) -> None:
        body.run(run, fails=0.1, defers=0.1)

    @app.task(name="limited", concurrency=2)
    def limited(run: Run, number: int) -> None:
        body.run(run)

    @app.task(name="poison")
    def poison(run: Run, number: int) -> None:
        body.run(run, dies=0.5)

    @app.perpetual(name="poll", every=POLL_EVERY, automatic=True)
    def poll(run: Run) -> None:
        body.run(run, fails=0.1)

    @app.schedule(every=TICK_EVERY, missed="all", overlap="allow", name="clockwork")
    @app.task(name="tick")
    def tick(run: Run) -> None:
        body.run(run)
