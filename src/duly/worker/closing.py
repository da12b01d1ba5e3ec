"""Doing what the end of a run asks for, on its transaction: in a thread, or awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from duly.errors import LeaseLost, SoftLimitExceeded
from duly.stores.contract import Store
from duly.transactions import AsyncTransaction, Transaction
from duly.worker.endings import Concluded
from duly.worker.transaction import Act, Ask, Closing, Commit, Finish, Pause, Settle

T = TypeVar("T")


def perform(acts: Closing, transaction: Transaction, store: Store) -> Concluded:
    """Do one act after the other; what goes wrong is told to whoever asked for it."""
    answer: Any = None
    failure: Exception | None = None
    while True:
        try:
            act = acts.send(answer) if failure is None else acts.throw(failure)
        except StopIteration as stop:
            concluded: Concluded = stop.value
            failure = None  # it knows this frame, and the connection: as a ring both would wait for gc
            return concluded
        try:
            answer, failure = _act(transaction, store, act), None
        except Exception as error:
            failure = error


async def aperform(acts: Closing, transaction: AsyncTransaction, store: Store) -> Concluded:
    """The async twin of perform."""
    answer: Any = None
    failure: Exception | None = None
    while True:
        try:
            act = acts.send(answer) if failure is None else acts.throw(failure)
        except StopIteration as stop:
            concluded: Concluded = stop.value
            failure = None
            return concluded
        try:
            answer, failure = await _aact(transaction, store, act), None
        except Exception as error:
            failure = error


def _act(transaction: Transaction, store: Store, act: Act) -> Any:
    match act:
        case Finish(worker=worker, settlement=settlement):  # the first, and of most runs the only one
            return transaction.finish(worker, settlement)
        case Ask(operation=operation):
            return store.run(operation)
        case Settle(operation=operation):
            return transaction.settle(operation)
        case Commit():
            return transaction.commit()
        case Pause(seconds=seconds):
            return time.sleep(seconds)


async def _aact(transaction: AsyncTransaction, store: Store, act: Act) -> Any:
    match act:
        case Finish(worker=worker, settlement=settlement):
            return await transaction.finish(worker, settlement)
        case Ask(operation=operation):
            return await store.arun(operation)
        case Settle(operation=operation):
            return await transaction.settle(operation)
        case Commit():
            return await transaction.commit()
        case Pause(seconds=seconds):
            return await asyncio.sleep(seconds)


def end(transaction: Transaction) -> None:
    """Nothing is left of it, and its connection is not lost, whatever happens on the way."""
    try:
        transaction.roll_back()
    finally:
        transaction.give_back()


async def aend(transaction: AsyncTransaction) -> None:
    """The async twin of end."""
    try:
        await transaction.roll_back()
    finally:
        await transaction.give_back()


async def undisturbed(closing: Coroutine[Any, Any, T]) -> T:
    """Await it to its end, whoever wants the caller to stop meanwhile; not beyond the loop's own end."""
    task = asyncio.ensure_future(closing)
    while not task.done():
        try:
            await asyncio.shield(task)
        except (asyncio.CancelledError, SoftLimitExceeded, LeaseLost):
            continue
    return task.result()
