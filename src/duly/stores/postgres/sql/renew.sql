-- renew, begin, report, disown: what a worker says about claims it holds, or does not hold.

-- name: beat
-- One small row per worker extends every lease it holds.
insert into {schema}.worker (id, name, host, pid, started_at, queues, tasks, slots, version, lease_until, seen_at)
values (%(id)s, %(name)s, %(host)s, %(pid)s, %(started_at)s, %(queues)s, %(tasks)s, %(slots)s, %(version)s,
    %(lease_until)s, %(now)s)
on conflict (id) do update
set name = excluded.name, host = excluded.host, pid = excluded.pid, started_at = excluded.started_at,
    queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots, version = excluded.version,
    lease_until = excluded.lease_until, seen_at = excluded.seen_at, is_cleared = false, has_left = false

-- name: beat_swiftly
-- The same in one message, where no request waits to be placed first: it answers nothing when one does. And
-- whether the schema serves this code and nobody moves it, which every worker wants to know with every beat.
with moment as materialized (
    select coalesce(%(now)s::int8, {beginning}) as now, coalesce(%(boot)s::int8, {beginning}) as boot
), beat as (
    insert into {schema}.worker (id, name, host, pid, started_at, queues, tasks, slots, version, lease_until,
        seen_at)
    select %(id)s::text, %(name)s::text, %(host)s::text, %(pid)s::int4, %(started_at)s::int8, %(queues)s::text,
        %(tasks)s::text, %(slots)s::int4, %(version)s::text, boot + %(lease)s::int8, now
    from moment
    where not exists (select 1 from {schema}.intake where set_aside < {format})
        and not exists (select 1 from {schema}.freed)
    on conflict (id) do update
    set name = excluded.name, host = excluded.host, pid = excluded.pid, started_at = excluded.started_at,
        queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots, version = excluded.version,
        lease_until = excluded.lease_until, seen_at = excluded.seen_at, is_cleared = false, has_left = false
    returning id
)
select not exists (select 1 from {schema}.house)
    and not exists (select 1 from {schema}.migration where oldest_code > %(level)s::int4)
from beat

-- name: changed
-- Which of the claims are lost, wished to stop or superseded.
select claim.place - 1, running.generation is null, notice.wish, notice.superseded_by
from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[]) with ordinality
    as claim (generation, epoch, seed, place)
left join {schema}.running on running.generation = claim.generation and running.epoch = claim.epoch
    and running.seed = claim.seed
left join {schema}.notice on notice.generation = running.generation and notice.epoch = running.epoch
where running.generation is null or notice.generation is not null

-- name: begin
-- Bodies are marked as started before they start; those not answered must not start.
with held as (
    select running.generation, running.epoch, running.seed
    from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[]) as claim (generation, epoch, seed)
    join {schema}.running on running.generation = claim.generation and running.epoch = claim.epoch
        and running.seed = claim.seed
    where not exists (
        select 1 from {schema}.notice
        where notice.generation = running.generation and notice.epoch = running.epoch
            and (notice.superseded_by is not null or notice.wish in ('cancel', 'delete')))
), begun as (
    insert into {schema}.remark (generation, epoch, has_begun, began_isolated)
    select generation, epoch, true, %(isolated)s from held
    on conflict (generation) do update
    set has_begun = true,
        began_isolated = excluded.began_isolated,
        progress = case when remark.epoch = excluded.epoch then remark.progress end,
        epoch = excluded.epoch
), once as (
    update {schema}.job set delivery = 'at_most_once'
    from held
    where %(once)s and job.generation = held.generation and job.delivery <> 'at_most_once'
)
select generation, epoch, seed from held

-- name: report
insert into {schema}.remark (generation, epoch, progress)
select running.generation, running.epoch, claim.progress
from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[], %(progress)s::text[])
    as claim (generation, epoch, seed, progress)
join {schema}.running on running.generation = claim.generation and running.epoch = claim.epoch
    and running.seed = claim.seed
on conflict (generation) do update
set progress = excluded.progress,
    has_begun = remark.has_begun and remark.epoch = excluded.epoch,
    began_isolated = remark.began_isolated and remark.epoch = excluded.epoch,
    epoch = excluded.epoch

-- name: await_claims
-- A claim holds its worker's row to its end: whoever has it sees what every claim before has lent. One in a
-- single message may not even have begun: it finds that it was counted out.
with held as materialized (
    select number from {schema}.worker where id = %(worker)s for update
)
update {schema}.worker set disowned = disowned + 1
where number = (select number from held)
returning disowned

-- name: borrowed
-- In the order in which the jobs came.
select job.id, running.epoch, running.seed, running.generation, running.serial is not null
from {schema}.running
join {schema}.worker on worker.number = running.worker
join {schema}.job on job.generation = running.generation
where worker.id = %(worker)s
order by job.entered
