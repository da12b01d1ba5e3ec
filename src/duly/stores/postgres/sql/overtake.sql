-- overtake: a later tick of a schedule comes while an earlier one waits, and takes its place.
-- For many schedules at once; one whose ticks run, or are parked, or that was stopped, is seen to by itself.

-- name: peers
-- Live jobs of each serial that was not stopped, oldest request first.
select wanted.serial::text, standing.generation, job.id, job.key, running.generation is not null,
    parked.generation is not null, job.per_key, job.overlap, job.lane, job.ready_at
from unnest(%(serials)s::uuid[]) as wanted (serial)
cross join lateral (
    select generation from {schema}.standing where standing.serial = wanted.serial offset 0) as standing
cross join lateral (
    select * from {schema}.job where job.generation = standing.generation offset 0) as job
left join lateral (
    select generation from {schema}.running where running.generation = standing.generation offset 0) as running on true
left join lateral (
    select generation from {schema}.parked where parked.generation = standing.generation offset 0) as parked on true
where not exists (select 1 from {schema}.marker where marker.serial = wanted.serial offset 0)
order by standing.generation

-- name: skip
with given as materialized (
    select * from unnest(%(generations)s::int8[], %(reasons)s::text[]) as given (generation, reason)
), late as materialized (
    select given.reason, job.*
    from given
    cross join lateral (
        select * from {schema}.job where job.generation = given.generation offset 0) as job
), unlined as (
    delete from {schema}.ready
    where ctid = any (array(
        select ready.place
        from late
        cross join lateral (
            select ctid as place from {schema}.ready
            where ready.lane = late.lane and ready.ready_at = late.ready_at and ready.generation = late.generation
            offset 0) as ready))
), stood as (
    delete from {schema}.standing
    where ctid = any (array(
        select standing.place
        from late
        cross join lateral (
            select ctid as place from {schema}.standing
            where standing.serial = late.serial and standing.generation = late.generation offset 0) as standing))
)
insert into {schema}.ended (generation, finished_at, forget_at, lane, epoch, state, reason, error, fingerprint,
    failed_at)
select generation, %(now)s::int8, %(now)s::int8 + keep_done, lane, epoch, %(state)s, reason, error, fingerprint,
    failed_at
from late
