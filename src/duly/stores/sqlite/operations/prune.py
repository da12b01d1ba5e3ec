"""prune: delete what finished long ago."""

from __future__ import annotations

from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.deliver import forget
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World

SQL = statements("prune")
DOCUMENT = statements("document")
DIARY = statements("diary")

ABSENCE = 24 * 3600 * 1_000_000
"""How long a worker that died without a word stays on the list, and a lock or a throttle that is over."""


def prune(world: World, limit: int) -> Steps[int]:
    """Results whose time is over, then the oldest jobs with their history, then what nobody needs."""
    yield from absorb(world)
    yield Statement(SQL["drop_results"], {"now": world.now})
    old = yield Statement(SQL["old"], {"now": world.now, "limit": limit})
    if old:
        generations = pack([generation for generation, _ in old])
        for reaction, key, job in (
            yield Statement(DOCUMENT["came_to_nothing"], {"generations": generations})
        ):
            yield Statement(DOCUMENT["clear"], {"reaction": reaction, "key": key, "job": job})
        yield Statement(SQL["drop_history"], {"jobs": pack([entered for _, entered in old])})
        yield Statement(SQL["drop_jobs"], {"generations": generations})
    yield Statement(SQL["drop_windows"], {"now": world.now})
    yield Statement(DIARY["forget"], {"now": world.now})
    yield from forget(world.now)
    yield from _forget_what_is_over(world)
    return len(old)


def _forget_what_is_over(world: World) -> Steps[None]:
    since, lease = world.now - ABSENCE, world.moment.lease()
    yield Statement(SQL["forget_workers"], {"seen_before": since} | lease)
    yield Statement(SQL["forget_locks"], lease | {"boot": world.moment.boot - ABSENCE})
    yield Statement(SQL["forget_switches"], {"since": since})
