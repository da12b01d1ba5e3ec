-- claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.
-- A lane that is held, full or unknown to the worker costs nothing, however many jobs wait in it.

-- name: look
-- Everything that may need attention before lending, in one row. The worker's own row is held, so that
-- nobody takes its jobs back while it is about to get some. Where somebody just has, its lease is over.
with me as materialized (
    select number, lease_until, has_left, is_cleared from {schema}.worker where id = %(worker)s for key share
)
select
    (select number from me where not has_left),
    coalesce((select lease_until > %(boot)s and not is_cleared from me), false),
    exists (
        select 1 from {schema}.worker
        where lease_until <= %(boot)s and not is_cleared and id <> %(worker)s),
    exists (
        select 1
        from unnest(%(lanes)s::int4[]) as lane (number)
        cross join lateral (
            select 1 from {schema}.expiry
            where expiry.lane = lane.number and expiry.expires_at <= %(now)s limit 1) as late),
    (select json_agg(json_build_array(scope, name, until)) from {schema}.switch
        where until is null or until > %(now)s),
    exists (select 1 from {schema}.notice),
    cardinality(%(limited)s::int4[]) > 0 and exists (select 1 from {schema}.running where serial is not null),
    (select json_agg(lane.number)
        from unnest(%(limited)s::int4[], %(since)s::int8[], %(after)s::int8[]) as lane (number, since, after)
        cross join lateral (
            select 1 from {schema}.ready
            where ready.lane = lane.number and (ready_at, generation) > (lane.since, lane.after)
                and ready_at <= %(now)s limit 1) as first),
    (select json_agg(json_build_array(load.lane, load.generation, load.loan)) from (
        {loads}) as load)

-- name: present
-- A worker that claims has a lease, even before its first beat; one that had left starts as a stranger.
insert into {schema}.worker as known (id, name, host, pid, started_at, queues, tasks, slots, version, lease_until,
    seen_at)
values (%(worker)s, %(worker)s, '', 0, %(now)s, '[]', '[]', 0, '', %(lease_until)s, %(now)s)
on conflict (id) do update
set lease_until = excluded.lease_until,
    is_cleared = false,
    has_left = false,
    name = case when known.has_left then excluded.name else known.name end,
    host = case when known.has_left then '' else known.host end,
    pid = case when known.has_left then 0 else known.pid end,
    started_at = case when known.has_left then excluded.started_at else known.started_at end,
    seen_at = case when known.has_left then excluded.seen_at else known.seen_at end,
    queues = case when known.has_left then '[]' else known.queues end,
    tasks = case when known.has_left then '[]' else known.tasks end,
    slots = case when known.has_left then 0 else known.slots end,
    version = case when known.has_left then '' else known.version end
returning number

-- name: lock_tasks
-- One claim at a time counts and lends under a task's limits; the oldest lane of a task stands for it.
select number from {schema}.lane
where number = any (%(lanes)s::int4[])
order by number
for no key update skip locked

-- name: loads
-- Loans that were seen before, and later ones of each lane: entries of those that ended are not walked over.
select running.lane, running.generation, running.loan
from unnest(%(seen)s::int8[]) as seen (generation)
cross join lateral (
    select lane, generation, loan from {schema}.running
    where running.generation = seen.generation offset 0) as running
union
select running.lane, running.generation, running.loan
from unnest(%(counted)s::int4[], %(newest)s::int8[]) as lane (number, newest)
cross join lateral (
    select lane, generation, loan from {schema}.running
    where running.lane = lane.number and running.loan > lane.newest offset 0) as running

-- name: last_loan
-- While one claim alone lends from a task, every loan of the task up to this one is to be seen. And the newest
-- lane: there may be loans from one made since the claim began.
union all
select null, (select max(number) from {schema}.lane), case when is_called then last_value else 0 end from {schema}.running_loan_seq

-- name: starts
select at from {schema}.start
where task = %(task)s and at > %(since)s
order by at desc, number desc
limit %(starts)s

-- name: forget_starts
delete from {schema}.start where task = %(task)s and at <= %(since)s

-- name: prospects
-- When the next job of each moving lane is due, when the first of each lane that stands still was, and when
-- the leases of other workers with jobs on loan end. A lease that was given back has ended long ago.
select 'due', lane.number, next.ready_at
from unnest(%(moving)s::int4[]) as lane (number)
cross join lateral (
    select ready_at from {schema}.ready
    where ready.lane = lane.number and ready.ready_at > %(now)s order by ready_at limit 1) as next
union all
select 'first', lane.number, first.ready_at
from unnest(%(standing)s::int4[]) as lane (number)
cross join lateral (
    select ready_at from {schema}.ready where ready.lane = lane.number order by ready_at limit 1) as first
union all
select 'lease', number, lease_until from {schema}.worker
where number <> %(worker)s and number in (select worker from {schema}.running)
