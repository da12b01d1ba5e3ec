-- expire: jobs that nobody wants any more are skipped instead of lent. Part of a claim.
-- Rows that no waiting job stands behind are swept out of the way; a job that waits again gets a new one.

-- name: skip_free
-- Nothing can stand behind a job without a serial, so these go together.
with late as materialized (
    select ready.ctid as place, job.generation, job.lane, job.epoch, job.keep_done, job.error,
        job.fingerprint, job.failed_at
    from {schema}.expiry
    join {schema}.job on job.generation = expiry.generation and job.expires_at = expiry.expires_at
    join {schema}.ready on ready.lane = job.lane and ready.ready_at = job.ready_at
        and ready.generation = job.generation
    where expiry.lane = any (%(lanes)s::int4[]) and expiry.expires_at <= %(now)s and job.serial is null
    for update of ready skip locked
), gone as (
    delete from {schema}.ready where ctid = any (array(select place from late))
)
insert into {schema}.ended (generation, finished_at, forget_at, lane, epoch, state, reason, error,
    fingerprint, failed_at)
select generation, %(now)s, %(now)s + keep_done, lane, epoch, 'skipped', 'expired', error,
    fingerprint, failed_at
from late

-- name: late
-- Waiting jobs with a serial, in the order in which they came.
select job.generation, job.serial::text
from {schema}.expiry
join {schema}.job on job.generation = expiry.generation and job.expires_at = expiry.expires_at
where expiry.lane = any (%(lanes)s::int4[]) and expiry.expires_at <= %(now)s and job.serial is not null
    and not exists (select 1 from {schema}.running where running.generation = job.generation)
    and not exists (select 1 from {schema}.ended where ended.generation = job.generation)
order by job.entered

-- name: sweep
delete from {schema}.expiry
where lane = any (%(lanes)s::int4[]) and expires_at <= %(now)s
    and (exists (select 1 from {schema}.running where running.generation = expiry.generation)
        or exists (select 1 from {schema}.ended where ended.generation = expiry.generation)
        or not exists (select 1 from {schema}.job
            where job.generation = expiry.generation and job.lane = expiry.lane
                and job.expires_at = expiry.expires_at))
