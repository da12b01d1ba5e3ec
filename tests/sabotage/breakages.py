"""One-line breakages of the engine, and the tests that must notice each.

A test that still passes on a broken engine proves nothing. Each line below was a mistake somebody made in a
system like this one, or is one edit away from being made here.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Breakage(NamedTuple):
    """An edit that makes the engine wrong."""

    name: str
    file: str
    """Below src/duly."""
    old: str
    """Stands there exactly once."""
    new: str
    tests: tuple[str, ...]
    """What pytest is told to run: one of these must fail."""


BREAKAGES: Final = [
    # --- the fence ------------------------------------------------------------------------------
    Breakage(
        "sqlite: a settle of plain ends compares no epoch",
        "stores/sqlite/sql/settle.sql",
        "and +state = 'running' and epoch = :epoch and nonce = :shown",
        "and +state = 'running'",
        ("tests/contract/test_fence.py", "-k", "sqlite"),
    ),
    Breakage(
        "sqlite: a settle of other ends compares no epoch",
        "stores/sqlite/operations/settle.py",
        "    return row.state is State.RUNNING and (row.epoch, row.nonce) == fence[1:]",
        "    return row.state is State.RUNNING",
        ("tests/contract/test_fence.py", "tests/contract/test_settle.py", "-k", "sqlite"),
    ),
    Breakage(
        "postgres: a settle of plain ends compares no epoch",
        "stores/postgres/sql/settle.sql",
        "    select given.started_at, running.*\n"
        "    from given\n"
        "    cross join lateral (\n"
        "        select ctid as place, running.* from {schema}.running\n"
        "        where running.generation = given.generation offset 0) as running\n"
        "    where running.epoch = given.epoch and running.seed = given.seed\n",
        "    select given.started_at, running.*\n"
        "    from given\n"
        "    cross join lateral (\n"
        "        select ctid as place, running.* from {schema}.running\n"
        "        where running.generation = given.generation offset 0) as running\n"
        "    where true\n",
        ("tests/contract/test_fence.py", "-k", "postgres"),
    ),
    Breakage(
        "postgres: a settle in one message compares no epoch",
        "stores/postgres/sql/settle.sql",
        " gone.epoch = given.epoch and gone.seed = given.seed as is_ours\n",
        " gone.seed = given.seed as is_ours\n",
        ("tests/adapters/postgres/test_messages.py",),
    ),
    Breakage(
        "postgres: a settle in one message compares no secret",
        "stores/postgres/sql/settle.sql",
        " gone.epoch = given.epoch and gone.seed = given.seed as is_ours\n",
        " gone.epoch = given.epoch as is_ours\n",
        ("tests/adapters/postgres/test_messages.py",),
    ),
    Breakage(
        "postgres: a settle in one message does not look again for what was said",
        "stores/postgres/sql/lend.sql",
        "{schema}.notice where generation = any (%(settled)s::int8[])))::int4 as is_confirmed",
        "{schema}.notice where false))::int4 as is_confirmed",
        ("tests/adapters/postgres/test_messages.py",),
    ),
    Breakage(
        "postgres: a claim in one message lends after it was disowned",
        "stores/postgres/sql/lend.sql",
        " and disowned = %(disowned)s::int4",
        "",
        ("tests/adapters/postgres/test_disturbed_claims.py",),
    ),
    Breakage(
        "worker: a body that was told to stop on its way begins",
        "worker/onloop.py",
        "    if holding.halt is None and (host is None or host.trusts_lease()):\n",
        "    if host is None or host.trusts_lease():\n",
        ("tests/stories/test_unstarted.py", "-k", "memory"),
    ),
    Breakage(
        "worker: a body begins although its lease may be over",
        "worker/onloop.py",
        "    if holding.halt is None and (host is None or host.trusts_lease()):\n",
        "    if holding.halt is None:\n",
        ("tests/unit/worker/test_loop_bodies.py",),
    ),
    Breakage(
        "worker: a body that waits shares its task with the next one",
        "worker/onloop.py",
        "is_kept = await self._conduct(holding, task) or traces(task) != untouched",
        "is_kept = not await self._conduct(holding, task) and traces(task) != untouched",
        ("tests/unit/worker/test_shift.py",),
    ),
    Breakage(
        "worker: a task that somebody remembers runs the next body",
        "worker/shift.py",
        "        sys.getrefcount(task),\n",
        "",
        ("tests/unit/worker/test_shift.py",),
    ),
    Breakage(
        "redis: a settle compares the epoch but not the nonce",
        "stores/redis/lua/lib/plain.lua",
        'if state ~= "running" or lines ~= 0 or epoch ~= said_epoch or nonce ~= said_nonce then',
        'if state ~= "running" or lines ~= 0 or epoch ~= said_epoch then',
        ("tests/contract/test_fence.py", "-k", "redis"),
    ),
    Breakage(
        "sqlite: a beat does not notice that its claim is another's",
        "stores/sqlite/sql/renew.sql",
        "    on job.id = claim.value ->> 0 and job.state = 'running' and job.epoch = claim.value ->> 1\n"
        "        and job.nonce = claim.value ->> 2\nwhere job.id is null",
        "    on job.id = claim.value ->> 0\nwhere job.id is null",
        ("tests/contract/test_renew.py", "tests/contract/test_fence.py", "-k", "sqlite"),
    ),
    Breakage(
        "memory: a start is recorded whoever holds the job",
        "stores/memory/renew.py",
        "        if row is not None and fence_holds(row, fence) and _order(row) is None:",
        "        if row is not None and _order(row) is None:",
        ("tests/contract/test_fence.py", "tests/contract/test_crashes.py", "-k", "memory"),
    ),
    # --- leases ---------------------------------------------------------------------------------
    Breakage(
        "sqlite: jobs are taken back whoever holds a lease",
        "stores/sqlite/operations/look.py",
        "        return self.lease_until is not None and self.lease_until > boot",
        "        return False",
        ("tests/contract/test_claim.py", "-k", "sqlite"),
    ),
    Breakage(
        "the lease is judged by the worker's wall clock",
        "stores/memory/world.py",
        "        return presence is not None and presence.lease_until > self.clock.boot()",
        "        return presence is not None and (self.clock.now() - presence.seen_at).total_seconds() < 30",
        ("tests/contract/test_renew.py", "-k", "memory"),
    ),
    Breakage(
        "a worker that cannot renew goes on",
        "worker/beat.py",
        "                self._fence()\n                self._is_over.wait",
        "                self._is_over.wait",
        ("tests/simulation", "tests/stories/test_worker.py", "-k", "lease_that_cannot or storm"),
    ),
    Breakage(
        "the heartbeat has no thread of its own",
        "worker/beat.py",
        "        self._thread.start()\n        self._watch.start()",
        "        self._watch.start()",
        ("tests/simulation", "-k", "storm"),
    ),
    Breakage(
        "claims whose answer was lost are never handed back",
        "worker/pump.py",
        "            self._store.run(self._store.disown(self._worker, held))\n",
        "",
        ("tests/simulation", "-k", "storm"),
    ),
    Breakage(
        "a claim that was lost while it was packed starts all the same",
        "worker/loans.py",
        "        if self._beat.era is not era:\n",
        "        if False:\n",
        ("tests/unit/worker/test_pump.py",),
    ),
    Breakage(
        "a claim that is packed when the store goes away runs here and is handed back",
        "worker/pump.py",
        "                self._loans.start()  # in hand, or",
        "                self._bench.advance()  # in hand, or",
        ("tests/unit/worker/test_pump.py",),
    ),
    Breakage(
        "claims stay packed while the store is asked about something else",
        "worker/pump.py",
        "            self._loans.start()  # nothing stays packed",
        "            pass  # nothing stays packed",
        ("tests/unit/worker/test_pump.py",),
    ),
    Breakage(
        "schedules that were lent are looked for where there are some now",
        "worker/pump.py",
        "        if self._asked_for_schedules:  #",
        "        if self._lanes.has_schedules:  #",
        ("tests/unit/worker/test_pump.py",),
    ),
    # --- generations ----------------------------------------------------------------------------
    Breakage(
        "memory: generations begin anew",
        "stores/memory/world.py",
        "        self.last_number += 1\n        return self.last_number",
        "        self.last_number = max((row.generation for row in self.rows.values()), default=0) + 1\n"
        "        return self.last_number",
        (
            "tests/contract/test_fence.py",
            "tests/contract/test_put.py",
            "tests/contract/test_locks.py",
            "-k",
            "memory",
        ),
    ),
    Breakage(
        "a superseded run settles like any other",
        "lifecycle.py",
        "    if standing.superseded_by is not None:\n",
        "    if False:\n",
        ("tests/contract/test_overlap_table.py", "-k", "sqlite"),
    ),
    Breakage(
        "a run yields to nobody",
        "lifecycle.py",
        "    if standing.queued is not None and event in GOES_ON:\n",
        "    if False:\n",
        ("tests/contract/test_overlap_table.py", "-k", "memory"),
    ),
    # --- ticks ----------------------------------------------------------------------------------
    Breakage(
        "a tick carries no key",
        "ticker.py",
        "Wishes(key=periodic.tick_key(schedule.name, tick))",
        "Wishes()",
        ("tests/stories/test_schedules.py", "-k", "memory"),
    ),
    Breakage(
        "the next instant is counted from now",
        "ticker.py",
        "        plan = periodic.plan(schedule, last_tick, now)",
        "        plan = periodic.plan(schedule, now - timedelta(microseconds=1), now)",
        ("tests/stories/test_schedules.py", "-k", "memory"),
    ),
    # --- stores ---------------------------------------------------------------------------------
    Breakage(
        "sqlite: a write begins as a read",
        "stores/sqlite/connection.py",
        'connection.execute("BEGIN IMMEDIATE")',
        'connection.execute("BEGIN")',
        ("tests/adapters/test_sqlite_processes.py", "tests/unit/sqlite"),
    ),
    Breakage(
        "redis: a script that was forgotten is not taught again",
        "stores/redis/driver.py",
        '            reply = self._wires.ask("EVAL", wanted.text, *values)\n        if not',
        "            raise\n        if not",
        ("tests/adapters/redis",),
    ),
    Breakage(
        "a worker waits for the bell alone",
        "worker/pump.py",
        "        poll = self._app.settings.poll.total_seconds() * (0.75 + spread() / 2)",
        "        poll = 1e6",
        ("tests/stories/test_worker.py", "-k", "nobody_rang_for and memory"),
    ),
    Breakage(
        "sqlite: a guard is judged in the caller's transaction, not after it",
        "stores/sqlite/operations/intake.py",
        "            placed.append((yield from _append(world, request)))",
        "            placed.extend((yield from put(world, [request])))",
        ("tests/contract/test_intake.py", "tests/stories/test_unique_for.py", "-k", "sqlite"),
    ),
    Breakage(
        "sqlite: a busy file is an error at once",
        "stores/sqlite/faults.py",
        "    return isinstance(error, sqlite3.OperationalError) and code_of(error) == sqlite3.SQLITE_BUSY",
        "    return False",
        ("tests/unit/sqlite/test_busy.py", "tests/adapters/test_sqlite_processes.py"),
    ),
    # --- bodies ---------------------------------------------------------------------------------
    Breakage(
        "a soft limit is an ordinary exception",
        "errors.py",
        "class SoftLimitExceeded(BaseException):",
        "class SoftLimitExceeded(Exception):",
        ("tests/stories/test_limits.py", "-k", "memory"),
    ),
    Breakage(
        "sqlite: a task the worker does not know is lent to it",
        "stores/sqlite/operations/lanes.py",
        "    return lane is not None and (ask.queues is None or queue in ask.queues or lane.on_any_queue)",
        "    return lane is None or ask.queues is None or queue in ask.queues or lane.on_any_queue",
        ("tests/contract/test_claim.py", "-k", "sqlite"),
    ),
    Breakage(
        "deaths in isolation are not counted",
        "lifecycle.py",
        "    if isinstance(verdict, Crash) and verdict.counted and standing.crashes + 1 >= CRASH_CAP:",
        "    if False:",
        ("tests/contract/test_crashes.py", "-k", "memory"),
    ),
    Breakage(
        "an at-most-once body is tried again after a crash",
        "stores/tables/recovery.py",
        "    elif row.delivery is Delivery.AT_MOST_ONCE and row.has_begun:",
        "    elif False:",
        ("tests/contract/test_crashes.py", "-k", "sqlite"),
    ),
    Breakage(
        "a hand-back does not ask whether the body may run twice",
        "lifecycle.py",
        "    if standing.is_spent and event in UNASKED:",
        "    if False:",
        ("tests/contract/test_crashes.py", "-k", "memory"),
    ),
    # --- exactly once ---------------------------------------------------------------------------
    Breakage(
        "effects are committed whatever the fence says",
        "worker/transaction.py",
        "            if answer is not Settled.SETTLED:\n",
        "            if False:\n",
        ("tests/stories/test_exactly_once.py",),
    ),
    Breakage(
        "sqlite: settle and commit in one step, whatever was wished",
        "stores/sqlite/sql/finish.sql",
        "    and superseded_by is null and wish is null\n",
        "",
        ("tests/stories/test_exactly_once.py", "-k", "sqlite"),
    ),
    Breakage(
        "sqlite: the end that a row tells is forgotten when another line follows",
        "stores/sqlite/operations/world.py",
        '            yield Statement(SQL["write_down"], {"generation": row.generation})\n',
        "",
        ("tests/unit/sqlite_operations/test_finish.py",),
    ),
    Breakage(
        "sqlite: a lone request is written to whatever file was open",
        "stores/sqlite/writer.py",
        "                self._identity.verify()\n                written = perform_alone",
        "                written = perform_alone",
        ("tests/unit/sqlite/test_faults.py",),
    ),
    Breakage(
        "sqlite: the end of an exactly-once run compares no epoch",
        "stores/sqlite/sql/finish.sql",
        "    and state = 'running' and epoch = :epoch and nonce = :nonce\n",
        "    and state = 'running' and :epoch = :epoch and :nonce = :nonce\n",
        ("tests/unit/sqlite/test_finish.py",),
    ),
    Breakage(
        "a run that could not end in one step is told of as ended",
        "worker/transaction.py",
        "            if self._may_finish(holding, transaction) and (yield self._finish(ended)):\n",
        "            if self._may_finish(holding, transaction) and ((yield self._finish(ended)), True)[1]:\n",
        ("tests/unit/worker/test_closing.py",),
    ),
    Breakage(
        "postgres: the end of an exactly-once run compares no fence",
        "stores/postgres/sql/finish.sql",
        "    where generation = %(generation)s::int8 and epoch = %(epoch)s::int4 and seed = %(seed)s::int8\n",
        "    where generation = %(generation)s::int8\n",
        ("tests/adapters/postgres/test_finish.py",),
    ),
    Breakage(
        "postgres: settle and commit in one message, whatever was wished",
        "stores/postgres/sql/finish.sql",
        "select 1 / (not exists (select from {schema}.notice where generation = %(generation)s::int8))",
        "select 1 / (%(generation)s::int8 is not null)",
        ("tests/stories/test_exactly_once.py", "-k", "postgres"),
    ),
    Breakage(
        "a run about a row that has changed is committed",
        "worker/transaction.py",
        "            yield from self._assuring(holding)\n",
        "",
        ("tests/stories/test_reactive.py", "-k", "outdated and sqlite"),
    ),
    # --- receipts -------------------------------------------------------------------------------
    Breakage(
        "sqlite: a receipt is completed whoever claimed it since",
        "ledger/sqlite/sql/complete.sql",
        "where id = :id and epoch = :epoch and mark = :mark and state in ('pending', 'exhausted')",
        "where id = :id",
        ("tests/ledger/test_guard.py", "tests/ledger/test_commit.py", "-k", "sqlite"),
    ),
    Breakage(
        "sqlite: a receipt is claimed whoever claimed it meanwhile",
        "ledger/sqlite/sql/claim.sql",
        "where id = :id and epoch = :epoch and state in ('pending', 'exhausted')",
        "where id = :id",
        ("tests/ledger/test_guard.py", "tests/ledger/test_together.py", "-k", "sqlite"),
    ),
    # --- outbox ---------------------------------------------------------------------------------
    Breakage(
        "sqlite: a late relay undoes a newer request",
        "stores/sqlite/operations/deliver.py",
        "    if last and last[0][0] >= parcel.number:",
        "    if False:",
        ("tests/contract/test_deliver.py", "-k", "sqlite"),
    ),
    Breakage(
        "sqlite: what was delivered is not remembered",
        "stores/sqlite/operations/deliver.py",
        '    yield Statement(SQL["remember"], {"id": request.id, "until": world.now + span(REMEMBERED)})\n',
        "",
        ("tests/contract/test_deliver.py", "-k", "sqlite"),
    ),
    # --- reactive -------------------------------------------------------------------------------
    Breakage(
        "a change of nothing that is watched makes a run",
        "reactive/plan.py",
        "    if record is not None and record.is_matched and record.counted == row.seen:",
        "    if False:",
        ("tests/reactive/test_planning.py", "-k", "sqlite"),
    ),
    Breakage(
        "a row that comes back is taken for one that never left",
        "reactive/plan.py",
        "    cleared = replace(record, seen=None, is_matched=False, since=None)\n"
        "    return Plan(record=cleared, ends=State.CANCELLED",
        "    cleared = replace(record, since=None)\n    return Plan(record=cleared, ends=State.CANCELLED",
        ("tests/reactive/test_planning.py", "-k", "sqlite"),
    ),
]
