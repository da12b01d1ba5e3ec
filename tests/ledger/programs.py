"""Programs for test_processes.py and its neighbours: each runs in an interpreter of its own.

python -m tests.ledger.programs NAME URL NAMESPACE ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tests.ledger.homes import Home

from duly import HandOver, Ledger, Receipt, exactly_once

LEASE = os.environ.get("LEDGER_LEASE", "1500ms")


def say(word: object) -> None:
    print(word, flush=True)


def wait() -> None:
    sys.stdin.readline()


def ledger_of(home: Home, **terms: str) -> Ledger:
    ledger = Ledger(home.url, namespace=home.namespace, **{"lease": LEASE, **terms})  # type: ignore[arg-type]
    ledger.open()
    return ledger


def deliver(home: Home, receipt: str, when: str) -> None:
    """Run a delivery that stops and waits to be told: before its effect, after it, or not at all."""

    @exactly_once(ledger=ledger_of(home), name="pay")
    def pay(receipt: Receipt) -> str:
        if when == "before":
            say("claimed")
            wait()
        receipt.connection.execute(home.insert, ("rent", str(os.getpid())))
        if when == "after":
            say("written")
            wait()
        return "paid"

    if when == "storm":
        say("ready")
        wait()
    try:
        say(pay(execution_id=receipt))
    except Exception as error:
        say(type(error).__name__)


def sweep(home: Home) -> None:
    """Sweep when told to, at the same moment as the others, and tell what was handed over."""
    ledger = ledger_of(home)
    orders: list[HandOver] = []
    say("ready")
    wait()
    ledger.sweep(hand_over=orders.append)
    say(" ".join(order.id for order in orders) or "nothing")


def fork(home: Home, *receipts: str) -> None:
    """Use the ledger, fork, and use it on both sides: neither may disturb the other's connections."""
    ledger = ledger_of(home)

    @exactly_once(ledger=ledger, name="pay")
    def pay(receipt: Receipt) -> None:
        receipt.connection.execute(home.insert, ("rent", str(receipt.id)))

    first, second, third = receipts
    pay(execution_id=first)
    child = os.fork()
    if child == 0:
        pay(execution_id=second)
        sys.exit(0)  # a full exit: the interpreter's end must not close the parent's connections either
    _, status = os.waitpid(child, 0)
    pay(execution_id=third)
    ledger.close()
    say(os.waitstatus_to_exitcode(status))


def open_it(home: Home) -> None:
    """Make the tables when told to, at the same moment as the others."""
    say("ready")
    wait()
    ledger_of(home)
    say("open")


def main(name: str, url: str, namespace: str, *arguments: str) -> None:
    programs: dict[str, Callable[..., None]] = {
        "deliver": deliver,
        "sweep": sweep,
        "open": open_it,
        "fork": fork,
    }
    programs[name](Home(url, namespace), *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
