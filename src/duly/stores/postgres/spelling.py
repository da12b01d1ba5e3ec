"""Writing the schema's name into statements, once for each; and how a transaction begins.

The name is quoted by the driver's own rules and never comes from anywhere but the settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from psycopg import sql

from duly.job import FINISHED, Delivery, Overlap, Wish
from duly.stores.postgres.message import Numbered, numbered
from duly.stores.tables.requests import FORMAT

CLOCK: Final = "(extract(epoch from clock_timestamp()) * 1000000)::int8"

BEGINNING: Final = "(extract(epoch from now()) * 1000000)::int8"
"""When the transaction began: the same for all that is done in one message."""

LOCK_PATIENCE: Final = timedelta(milliseconds=100)
"""Longer than a request takes; what is held longer is tried again, and by a worker with care."""

MOMENT: Final = """
select {clock}, coalesce((select max(number) from {schema}.lane), 0),
    exists (select 1 from {schema}.intake where set_aside < {format})
        or exists (select 1 from {schema}.freed),
    (select json_build_array(max(oldest_code), (
        select json_build_array(stage, move, other, cursor) from {schema}.house)) from {schema}.migration)"""
"""What every operation wants to know first."""

# A plan made for a table that was empty, or never looked at, must not walk through it when it is full, nor
# sort all that waits. (Where a join must begin at one end, the statements say so themselves, with a fence
# that the planner cannot see through.)
SETTINGS: Final = """
select set_config('synchronous_commit', case current_setting('synchronous_commit')
            when 'off' then 'on' when 'local' then 'on'
            else current_setting('synchronous_commit') end, {is_local}),
    set_config('statement_timeout', '{statement}', {is_local}),
    set_config('lock_timeout', '{lock}', {is_local}),
    set_config('idle_in_transaction_session_timeout', '{statement}', {is_local}),
    set_config('enable_seqscan', 'off', {is_local}),
    set_config('enable_bitmapscan', 'off', {is_local}),
    set_config('jit', 'off', {is_local}),
    set_config('default_transaction_isolation', 'read committed', {is_local}),
    set_config('default_transaction_read_only', 'off', {is_local})"""

WRITING: Final = b"begin isolation level read committed read write; "
READING: Final = b"begin isolation level repeatable read read only; "
FREELY: Final = b"set local enable_seqscan to on; set local enable_bitmapscan to on; "
"""Who reads for people may ask for anything, and the planner knows best."""

ONE_PLAN: Final = b"; set plan_cache_mode to force_generic_plan; "
"""For messages. A plan made for the values of a single job looks cheaper, so the server would make it
anew each time; that took it longer than all the rest of a pick-up."""
MANY_PLANS: Final = b"set local plan_cache_mode to default; "
"""For conversations, which begin with this: some of their statements are as good as their values."""


class Spelling:
    """How statements read in one schema."""

    def __init__(self, namespace: str, moment: str | None = None) -> None:
        self.namespace = namespace
        self.moment = moment
        """What to ask first in a schema that holds no jobs, in place of MOMENT."""
        quoted = sql.Identifier(namespace).as_string(None)
        # In a statement with parameters a percent sign is written twice.
        self._names = _names(quoted.replace("%", "%%"))
        self._bare_names = _names(quoted)
        self._known: dict[str, bytes] = {}
        self._numbered: dict[str, Numbered] = {}

    def __call__(self, text: str) -> bytes:
        """A statement with parameters."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = _spelled(text, self._names).encode()
        return known

    def numbered(self, text: str) -> Numbered:
        """A statement for a message, under a name of its own."""
        known = self._numbered.get(text)
        if known is None:
            known = self._numbered[text] = numbered(f"duly_{len(self._numbered)}", self(text))
        return known

    def script(self, text: str, **words: str) -> bytes:
        """A script without parameters."""
        return _spelled(text, self._bare_names | words).encode()


class Manner:
    """How transactions begin on a connection, and what is said on it once before.

    On a connection of our own the settings and the first question are left with the server. Where a pooler
    gives each transaction another one, everything is said each time, and forgotten at its end.
    """

    def __init__(self, spell: Spelling, patience: timedelta) -> None:
        limits = {"statement": _milliseconds(patience), "lock": _milliseconds(LOCK_PATIENCE)}
        moment = spell.script(spell.moment or MOMENT, clock=CLOCK, format=str(FORMAT))
        ours = spell.script(SETTINGS, is_local="true", **limits) + b"; " + moment
        lasting = spell.script(SETTINGS, is_local="false", **limits) + ONE_PLAN
        self.greeting = lasting + b"prepare duly_moment as " + moment
        ask = b"execute duly_moment"
        self._lasting = {
            True: WRITING + MANY_PLANS + ask,
            False: READING + MANY_PLANS + FREELY + ask,
        }
        self._passing = {True: WRITING + ours, False: READING + moment}

    def beginning(self, *, is_greeted: bool, writes: bool) -> bytes:
        """How a transaction begins."""
        return self._lasting[writes] if is_greeted else self._passing[writes]


def _names(quoted: str) -> dict[str, str]:
    return {
        "schema": quoted,
        "literal": quoted.replace("'", "''"),
        "finished": _list(sorted(FINISHED)),
        "overlaps": _list(Overlap),
        "deliveries": _list(Delivery),
        "wishes": _list(Wish),
        "beginning": BEGINNING,
        "format": str(FORMAT),
    }


def _list(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _spelled(text: str, names: dict[str, str]) -> str:
    """In one pass, so that a name which looks like one of ours is left alone, and so is what `bare` wrote."""
    spelled = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), text)
    return spelled.replace(_BARE, "{")


_BARE: Final = "{\0"


def bare(text: str) -> str:
    """Text of the user's inside a statement with parameters: neither its braces nor its percents are ours."""
    return text.replace("{", _BARE).replace("%", "%%")


def _milliseconds(length: timedelta) -> str:
    return str(max(1, length // timedelta(milliseconds=1)))
