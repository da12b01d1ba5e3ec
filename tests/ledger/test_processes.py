"""Real processes that deliver, die, freeze and wake up: never two effects, and never none for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home
from tests.stories.arrange import until

from duly import Ledger
from duly.ledger import ReceiptState

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(sys.platform == "win32", reason="the programs are frozen and killed"),
]


class Program:
    """One child, spoken to by lines."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ledger.programs", *arguments],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(40)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self.process.poll() is None:
            self.thaw()
        self.process.kill()
        self.process.communicate()


class Start(Protocol):
    def __call__(self, name: str, *arguments: str, **variables: str) -> Program: ...


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    started: list[Program] = []

    def start_one(name: str, *arguments: str, **variables: str) -> Program:
        program = Program(name, home.url, home.namespace, *arguments, **variables)
        started.append(program)
        return program

    yield start_one
    for program in started:
        program.end()


@pytest.fixture
def receipt(ledger: Ledger) -> str:
    return ledger.issue("pay").id


def state(ledger: Ledger, receipt: str) -> ReceiptState:
    view = ledger.get(receipt)
    assert view is not None
    return view.state


def await_end_of_lease(ledger: Ledger, receipt: str) -> None:
    def is_over() -> bool:
        view = ledger.get(receipt)
        return view is not None and not view.is_claimed

    until(is_over)


# --- deaths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_killed_in_its_body_leaves_nothing_and_another_pays(
    start: Start, home: Home, ledger: Ledger, receipt: str, when: str
) -> None:
    first = start("deliver", receipt, when)
    assert first.says() in ("claimed", "written")

    first.kill()
    left_behind = home.effects()
    await_end_of_lease(ledger, receipt)
    second = start("deliver", receipt, "never")

    assert left_behind == []
    assert second.says() == "paid"
    assert home.effects() == [("rent", str(second.process.pid))]


@pytest.mark.parametrize(
    ("point", "effects"), [("after_claim", 0), ("before_settle", 0), ("after_settle", 1)]
)
def test_a_worker_that_dies_beside_its_commit_has_paid_or_not_and_the_receipt_knows(
    start: Start, home: Home, ledger: Ledger, receipt: str, point: str, effects: int
) -> None:
    first = start("deliver", receipt, "never", DULY_FAILPOINTS=f"{point}=exit task=pay")
    first.process.wait(60)

    assert len(home.effects()) == effects
    assert state(ledger, receipt) is (ReceiptState.COMPLETED if effects else ReceiptState.PENDING)
    await_end_of_lease(ledger, receipt)
    second = start("deliver", receipt, "never")
    assert second.says() == ("None" if effects else "paid")
    assert len(home.effects()) == 1


# --- zombies --------------------------------------------------------------------------------------------


def test_a_zombie_that_wakes_before_its_effect_has_none(
    start: Start, home: Home, ledger: Ledger, receipt: str
) -> None:
    zombie = start("deliver", receipt, "before")
    assert zombie.says() == "claimed"
    zombie.freeze()
    await_end_of_lease(ledger, receipt)
    successor = start("deliver", receipt, "never")
    assert successor.says() == "paid"

    zombie.go()
    zombie.thaw()

    assert zombie.says() == "ReceiptLost"
    assert home.effects() == [("rent", str(successor.process.pid))]


@pytest.mark.usefixtures("postgres_only")
def test_a_zombie_frozen_between_effect_and_commit_is_rolled_back(
    start: Start, home: Home, ledger: Ledger, receipt: str
) -> None:
    zombie = start("deliver", receipt, "after")
    assert zombie.says() == "written"
    zombie.freeze()
    await_end_of_lease(ledger, receipt)
    successor = start("deliver", receipt, "never")
    assert successor.says() == "paid"

    zombie.go()
    zombie.thaw()

    assert zombie.says() in ("ReceiptLost", "IdleInTransactionSessionTimeout", "OperationalError")
    assert home.effects() == [("rent", str(successor.process.pid))]


@pytest.mark.usefixtures("sqlite_only")
def test_a_process_frozen_between_effect_and_commit_keeps_the_file_and_its_effect_is_the_only_one(
    start: Start, home: Home, ledger: Ledger, receipt: str
) -> None:
    frozen = start("deliver", receipt, "after")
    assert frozen.says() == "written"
    frozen.freeze()
    await_end_of_lease(ledger, receipt)  # nobody could renew it, and nobody can take it
    other = start("deliver", receipt, "storm")
    assert other.says() == "ready"
    frozen.go()
    other.go()

    frozen.thaw()

    assert frozen.says() == "paid"
    assert other.says() == "None"
    assert home.effects() == [("rent", str(frozen.process.pid))]


@pytest.mark.usefixtures("sqlite_only")
def test_a_body_that_has_written_is_not_lost_although_no_renewal_gets_through(
    start: Start, home: Home, ledger: Ledger, receipt: str
) -> None:
    slow = start("deliver", receipt, "after")
    assert slow.says() == "written"

    await_end_of_lease(ledger, receipt)
    slow.go()

    assert slow.says() == "paid"
    assert len(home.effects()) == 1


# --- crowds ---------------------------------------------------------------------------------------------


def test_of_eight_deliveries_at_once_one_pays(start: Start, home: Home, receipt: str) -> None:
    crowd = [start("deliver", receipt, "storm", LEDGER_LEASE="30s") for _ in range(8)]
    for one in crowd:
        assert one.says() == "ready"

    for one in crowd:
        one.go()
    answers = sorted(one.says() for one in crowd)

    assert answers == ["None"] * 7 + ["paid"]
    assert len(home.effects()) == 1


def test_of_eight_sweeping_processes_one_hands_each_receipt_over(
    start: Start, home: Home, open_ledger: OpenLedger
) -> None:
    hasty = open_ledger(lost_after="1ms")
    with closing(home.connect()) as connection:
        receipts = [hasty.issue("pay", connection=connection).id for _ in range(6)]
        connection.commit()
    crowd = [start("sweep") for _ in range(8)]
    for one in crowd:
        assert one.says() == "ready"

    for one in crowd:
        one.go()
    handed_over = [word for one in crowd for word in one.says().split() if word != "nothing"]

    assert sorted(handed_over) == sorted(receipts)


def test_a_process_that_forks_pays_on_both_sides(start: Start, home: Home, ledger: Ledger) -> None:
    receipts = [ledger.issue("pay").id for _ in range(3)]

    program = start("fork", *receipts)

    assert program.says() == "0"
    assert sorted(who for _, who in home.effects()) == sorted(receipts)


def test_eight_processes_may_make_the_tables_at_once(start: Start, home: Home) -> None:
    crowd = [start("open") for _ in range(8)]
    for one in crowd:
        assert one.says() == "ready"

    for one in crowd:
        one.go()

    assert [one.says() for one in crowd] == ["open"] * 8
