"""hold, free, switches: lanes that stand still until somebody resumes them, or until a time."""

from __future__ import annotations

from duly.stores.contract import Scope, Switch
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import restored, stored
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import instant_or_none, stamp_or_none

SQL = statements("switches")


def hold(switch: Switch) -> Steps[None]:
    """Stop a lane, unless it already stands still for longer."""
    values = {"scope": switch.scope, "name": stored(switch.name), "reason": stored(switch.reason)}
    yield Statement(SQL["hold"], values | {"until": stamp_or_none(switch.until)})


def free(scope: Scope, name: str) -> Steps[bool]:
    """Let a lane move again; says whether it was held."""
    return bool((yield Statement(SQL["free"], {"scope": scope, "name": stored(name)})))


def switches(world: World) -> Steps[list[Switch]]:
    """Those in force."""
    found = yield Statement(SQL["list"], {"now": world.now})
    return [
        Switch(Scope(scope), restored(name), instant_or_none(until), restored(reason))
        for scope, name, until, reason in found
    ]
