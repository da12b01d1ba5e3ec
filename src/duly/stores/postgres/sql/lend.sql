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

-- name: lend_swiftly
-- A claim in one statement, for when there is nothing to attend to first: `now` is null, and nothing lent, when
-- there is. What was settled just before must not have been spoken of: if it was, a division by zero undoes it.
-- Jobs with a serial are not for this statement: where one is next, it lends nothing.
with moment as materialized (
    select coalesce(%(now)s::int8, {beginning}) as now, coalesce(%(boot)s::int8, {beginning}) as boot,
        1 / (not exists (
            select 1 from {schema}.notice where generation = any (%(settled)s::int8[])))::int4 as is_confirmed
), me as materialized (
    -- Held, so that nobody takes our jobs back while we are about to get some; not if somebody just has.
    select number, lease_until from {schema}.worker
    where id = %(worker)s and not has_left and not is_cleared and disowned = %(disowned)s::int4 for key share
), plain as materialized (
    select moment.now, moment.boot, me.number as worker
    from moment cross join me
    where moment.is_confirmed = 1 and me.lease_until > moment.boot
        and not exists (
            select 1 from {schema}.worker
            where lease_until <= (select boot from moment) and not is_cleared and id <> %(worker)s)
        and not exists (
            select 1
            from unnest(%(lanes)s::int4[]) as lane (number)
            cross join lateral (
                select 1 from {schema}.expiry
                where expiry.lane = lane.number and expiry.expires_at <= (select now from moment) limit 1) as late)
        and not exists (
            select 1 from {schema}.switch where until is null or until > (select now from moment))
        and not exists (select 1 from {schema}.intake where set_aside < {format})
        and not exists (select 1 from {schema}.freed)
        and not exists (select 1 from {schema}.house)
        and not exists (select 1 from {schema}.migration where oldest_code > %(level)s::int4)
        and (select max(number) from {schema}.lane) <= %(newest)s::int4
), lane as materialized (
    select lane.*, plain.now
    from plain
    cross join unnest(%(lanes)s::int4[], %(ranks)s::int4[], %(since)s::int8[], %(after)s::int8[])
        as lane (number, rank, since, after)
), seen as materialized (
    -- The first over several lanes; of one alone they need not be told apart.
    select lane.number as lane, lane.since, lane.after, lane.now
    from lane
    cross join lateral (
        select ready_at, generation from {schema}.ready
        where ready.lane = lane.number and (ready_at, generation) > (lane.since, lane.after)
            and ready_at <= lane.now
        order by ready_at, generation
        limit %(limit)s::int4) as next
    where cardinality(%(lanes)s::int4[]) > 1
    order by lane.rank, next.ready_at, next.generation
    limit %(limit)s::int4
), share as materialized (
    select lane, since, after, now, count(*) as amount from seen group by lane, since, after, now
    union all
    select number, since, after, now, %(limit)s::int4 from lane where cardinality(%(lanes)s::int4[]) = 1
), picked as materialized (
    select next.*
    from share
    cross join lateral (
        select ready.ctid as place, ready.generation, ready.has_serial from {schema}.ready
        where ready.lane = share.lane and (ready_at, generation) > (share.since, share.after)
            and ready_at <= share.now
        order by ready_at, generation
        limit share.amount
        for update skip locked) as next
), found as materialized (
    select count(*) as amount, coalesce(bool_or(has_serial), false) as has_serials from picked
), taken as materialized (
    select place, generation from picked where not (select has_serials from found)
), chosen as materialized (
    select generation, id, epoch + 1 as epoch, lane, key, arguments, attempt, crashes, deferrals, cycle,
        is_suspect, due, tick, first_failure, context, ready_at, keep_done,
        (epoch, attempt, crashes, deferrals, cycle, due) = (0, 0, 0, 0, 0, ready_at) and not is_suspect
            and key is null and tick is null and first_failure is null as is_first
    from {schema}.job
    where generation = any (array(select generation from taken))
    order by ready_at, generation
), lent as (
    insert into {schema}.running (generation, seed, keep_done, lane, worker, epoch)
    select generation, %(seed)s::int8, keep_done, lane, worker, epoch from chosen cross join plain
), gone as (
    delete from {schema}.ready where ctid = any (array(select place from taken))
)
-- Jobs lent for the first time differ in little, and are told in one row; the others follow. What they differ in
-- is told as lists, and once where all agree. No text of ours has the border between two in it.
select null::int8 as generation, null::text as id, null::int4 as epoch, null::int4 as lane, null::text as key,
    string_agg(arguments, E'\uffff,') as arguments, null::int4 as attempt, null::int4 as crashes,
    null::int4 as deferrals, null::int4 as cycle, null::bool as is_suspect, null::int8 as due, null::int8 as tick,
    null::int8 as first_failure, string_agg(context, E'\uffff,') as context, null::int8 as ready_at,
    null::text as serial, array_agg(id) as ids, array_agg(generation)::text as generations,
    case when min(lane) = max(lane) then array[min(lane)] else array_agg(lane) end as lanes,
    case when min(ready_at) = max(ready_at) then array[min(ready_at)] else array_agg(ready_at) end as moments,
    (select is_confirmed from moment), (select amount from found), (select now from plain),
    case when (select amount from found) < %(limit)s::int4 then (
        select json_build_array(
            (select min(next.ready_at)
                from lane
                cross join lateral (
                    select ready_at from {schema}.ready
                    where ready.lane = lane.number and ready.ready_at > lane.now
                    order by ready_at limit 1) as next),
            (select min(lease_until - boot) from {schema}.worker cross join plain
                where number <> plain.worker and number in (select worker from {schema}.running)))::text)
    end
from chosen
where is_first
union all
select generation, id, epoch, lane, key, arguments, attempt, crashes, deferrals, cycle, is_suspect, due, tick,
    first_failure, context, ready_at, null, null, null, null, null, null, null, null, null
from chosen
where not is_first

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
