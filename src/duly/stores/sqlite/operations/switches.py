"""hold, free, switches: lanes that stand still until somebody resumes them, or until a time."""

from __future__ import annotations

from duly.stores.contract import Scope, Switch
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import instant_or_none, stamp_or_none

SQL = statements("switches")


def hold(switch: Switch) -> Steps[None]:
    """Stop a lane, unless it already stands still for longer."""
    values = {"scope": switch.scope, "name": switch.name, "reason": switch.reason}
    yield Statement(SQL["hold"], values | {"until": stamp_or_none(switch.until)})


def free(scope: Scope, name: str) -> Steps[bool]:
    """Let a lane move again; says whether it was held."""
    return bool((yield Statement(SQL["free"], {"scope": scope, "name": name})))


def switches(world: World) -> Steps[list[Switch]]:
    """Those in force."""
    found = yield Statement(SQL["list"], {"now": world.now})
    return [
        Switch(Scope(scope), name, instant_or_none(until), reason) for scope, name, until, reason in found
    ]
