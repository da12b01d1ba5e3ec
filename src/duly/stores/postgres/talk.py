"""Holding one try of an operation over a connection, with or without asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg

from duly.stores.drive import Row
from duly.stores.postgres.attempt import COMMIT, Command
from duly.stores.postgres.faults import STALE_PLANS
from duly.stores.postgres.message import Part
from duly.stores.postgres.wire import AsyncWire, Wire


class Outcome(NamedTuple):
    """What one try came to."""

    value: Any = None
    error: Exception | None = None
    is_committing: bool = False


def say(wire: Wire, parts: Sequence[Part], meanwhile: Callable[[], object] | None = None) -> Outcome:
    """Send one message, which commits by itself; what the server had against it has undone it."""
    try:
        return Outcome(wire.say(parts, meanwhile))
    except psycopg.Error as error:
        if isinstance(error, STALE_PLANS):
            wire.close()
        return Outcome(error=error, is_committing=True)


async def asay(wire: AsyncWire, parts: Sequence[Part]) -> Outcome:
    """The same, awaited."""
    try:
        return Outcome(await wire.say(parts))
    except psycopg.Error as error:
        if isinstance(error, STALE_PLANS):
            await wire.close()
        return Outcome(error=error, is_committing=True)


def converse(wire: Wire, commands: Generator[Command, list[Row], Any]) -> Outcome:
    """Hold one try; whatever goes wrong in it is rolled back and answered."""
    command = next(commands)
    try:
        while True:
            command = commands.send(wire.perform(*command))
    except StopIteration as stop:
        return Outcome(stop.value)
    except Exception as error:
        _roll_back(wire)
        if isinstance(error, STALE_PLANS):
            wire.close()  # it is not the connection we took it for
        return Outcome(error=error, is_committing=command is COMMIT)
    except BaseException:
        _roll_back(wire)
        raise


def _roll_back(wire: Wire) -> None:
    if not wire.closed and not wire.is_fit:
        with suppress(psycopg.Error):
            wire.roll_back()


async def aconverse(wire: AsyncWire, commands: Generator[Command, list[Row], Any]) -> Outcome:
    """The same, awaited."""
    command = next(commands)
    try:
        while True:
            command = commands.send(await wire.perform(*command))
    except StopIteration as stop:
        return Outcome(stop.value)
    except Exception as error:
        await _aroll_back(wire)
        if isinstance(error, STALE_PLANS):
            await wire.close()
        return Outcome(error=error, is_committing=command is COMMIT)
    except BaseException:
        await wire.close()  # cancelled in the middle: the server rolls back when we are gone
        raise


async def _aroll_back(wire: AsyncWire) -> None:
    if not wire.closed and not wire.is_fit:
        with suppress(psycopg.Error):
            await wire.roll_back()
