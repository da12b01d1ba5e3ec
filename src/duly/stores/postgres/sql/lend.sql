-- lend: pick ready jobs in the order of priority, time and generation over all lanes given, and lend them.
-- Each lane is read from a point on, so entries of jobs lent before are not walked over. Jobs that another
-- claim is taking are skipped.

-- name: pick
-- Lends what has no serial. What has one is only answered: its serial must be locked before anything else.
with lane as materialized (
    select *
    from unnest(%(lanes)s::int4[], %(ranks)s::int4[], %(since)s::int8[], %(after)s::int8[])
        as lane (number, rank, since, after)
), seen as materialized (
    select lane.number as lane, lane.rank, lane.since, lane.after, next.has_serial, next.generation
    from lane
    cross join lateral (
        select has_serial, ready_at, generation from {schema}.ready
        where ready.lane = lane.number and (ready_at, generation) > (lane.since, lane.after)
            and ready_at <= %(now)s
        order by ready_at, generation
        limit %(limit)s) as next
    order by lane.rank, next.ready_at, next.generation
    limit %(limit)s
), share as materialized (
    select lane, rank, since, after, count(*) as amount
    from seen where not has_serial group by lane, rank, since, after
), picked as materialized (
    select share.rank, next.place, next.generation
    from share
    cross join lateral (
        select ready.ctid as place, ready.generation from {schema}.ready
        where ready.lane = share.lane and (ready_at, generation) > (share.since, share.after)
            and ready_at <= %(now)s and not has_serial
        order by ready_at, generation
        limit share.amount
        for update skip locked) as next
), chosen as materialized (
    select next.rank, job.*
    from (
        select rank, generation from picked
        union all
        select rank, generation from seen where has_serial) as next
    cross join lateral (
        select * from {schema}.job where job.generation = next.generation offset 0) as job
), lent as (
    insert into {schema}.running (generation, seed, keep_done, lane, worker, epoch)
    select generation, %(seed)s, keep_done, lane, %(worker)s, epoch + 1 from chosen where serial is null
), gone as (
    delete from {schema}.ready where ctid = any (array(select place from picked))
)
select generation, id, epoch + 1, lane, key, arguments, attempt, crashes, deferrals, cycle, is_suspect, due, tick,
    first_failure, context, ready_at, serial::text, per_key, (select count(*) from seen)
from chosen
order by rank, ready_at, generation

-- name: peek
with lane as materialized (
    select *
    from unnest(%(lanes)s::int4[], %(ranks)s::int4[], %(since)s::int8[], %(after)s::int8[])
        as lane (number, rank, since, after)
)
select next.ready_at, next.generation, lane.number, job.serial::text, job.per_key
from lane
cross join lateral (
    select ready_at, generation from {schema}.ready
    where ready.lane = lane.number and (ready_at, generation) > (lane.since, lane.after) and ready_at <= %(now)s
    order by ready_at, generation
    limit %(limit)s) as next
cross join lateral (
    select serial, per_key from {schema}.job where job.generation = next.generation offset 0) as job
order by lane.rank, next.ready_at, next.generation
limit %(limit)s

-- name: take
-- Lends the jobs named, but for those that have moved or that somebody else is taking.
with picked as materialized (
    select ready.place, job.*
    from unnest(%(generations)s::int8[]) as wanted (generation)
    cross join lateral (
        select * from {schema}.job where job.generation = wanted.generation offset 0) as job
    cross join lateral (
        select ctid as place from {schema}.ready
        where ready.lane = job.lane and ready.ready_at = job.ready_at and ready.generation = job.generation
            and ready.ready_at <= %(now)s
        for update skip locked) as ready
), lent as (
    insert into {schema}.running (generation, seed, keep_done, lane, worker, epoch, serial)
    select generation, %(seed)s, keep_done, lane, %(worker)s, epoch + 1, serial from picked
), gone as (
    delete from {schema}.ready where ctid = any (array(select place from picked))
)
select generation, id, epoch + 1, lane, key, arguments, attempt, crashes, deferrals, cycle, is_suspect, due, tick,
    first_failure, context, ready_at, serial::text, per_key, 0
from picked

-- name: on_loan
select standing.serial::text, count(*)
from {schema}.standing
where standing.serial = any (%(serials)s::uuid[])
    and exists (select 1 from {schema}.running where running.generation = standing.generation offset 0)
group by standing.serial

-- name: park
with gone as (
    delete from {schema}.ready
    where ctid = any (array(
        select ready.place
        from unnest(%(generations)s::int8[]) as wanted (generation)
        cross join lateral (
            select * from {schema}.job where job.generation = wanted.generation offset 0) as job
        cross join lateral (
            select ctid as place from {schema}.ready
            where ready.lane = job.lane and ready.ready_at = job.ready_at
                and ready.generation = job.generation offset 0) as ready))
    returning lane, ready_at, generation
)
insert into {schema}.parked (lane, ready_at, generation) select lane, ready_at, generation from gone

-- name: behind_runs
-- Ready jobs of some lanes whose serial is on loan: found from the runs, so the backlog is not walked. The
-- fences keep the planner from beginning at the other end.
with held as materialized (
    select distinct serial from {schema}.running where serial is not null
)
select waiting.ready_at, waiting.generation, waiting.lane, job.serial::text, job.per_key
from held
cross join lateral (
    select generation from {schema}.standing where standing.serial = held.serial offset 0) as stander
cross join lateral (
    select * from {schema}.job where job.generation = stander.generation offset 0) as job
cross join lateral (
    select * from {schema}.ready
    where ready.lane = job.lane and ready.ready_at = job.ready_at and ready.generation = job.generation
    offset 0) as waiting
where waiting.lane = any (%(lanes)s::int4[]) and waiting.ready_at <= %(now)s and job.per_key > 0

-- name: start
insert into {schema}.start (task, at) select task, %(now)s from unnest(%(tasks)s::text[]) as started (task)
