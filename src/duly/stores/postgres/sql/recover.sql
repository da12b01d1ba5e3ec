-- recover: what dead workers held becomes ready again, or ends as it must. Part of a claim.
-- Nothing waits: a loan that somebody is settling at this moment is left for the next claim.

-- name: dead
-- Workers whose lease ran out and whose jobs nobody has taken back yet. One that is claiming or beating at
-- this moment is not among them.
select number, case when has_left or host = '' then 'an unknown host' else host end
from {schema}.worker
where lease_until <= %(boot)s and not is_cleared and number <> %(worker)s
order by number
for update skip locked

-- name: take_back
-- Jobs without a serial of which nobody said anything: back to the ready set, all together.
with held as materialized (
    select running.ctid as place, running.generation, running.epoch, running.worker from {schema}.running
    where running.worker = any (%(workers)s::int4[]) and running.serial is null
        and not exists (select 1 from {schema}.notice where notice.generation = running.generation)
        and not exists (select 1 from {schema}.remark where remark.generation = running.generation
            and remark.epoch = running.epoch)
    for update of running skip locked
), gone as (
    delete from {schema}.running using held where running.ctid = held.place returning held.*
), lines as (
    insert into {schema}.history (entered, at, event, epoch, generation, attempt, worker, note)
    select job.entered, %(now)s, 'lease ran out', gone.epoch, gone.generation, job.attempt, worker.id,
        'lease ran out on '
            || case when worker.has_left or worker.host = '' then 'an unknown host' else worker.host end
    from gone
    join {schema}.job on job.generation = gone.generation
    join {schema}.worker on worker.number = gone.worker
), waiting as (
    update {schema}.job
    set epoch = gone.epoch, ready_at = %(now)s, is_suspect = true
    from gone
    where job.generation = gone.generation
    returning job.lane, job.ready_at, job.generation, job.expires_at
), expiring as (
    insert into {schema}.expiry (lane, expires_at, generation)
    select lane, expires_at, generation from waiting where expires_at is not null
    on conflict do nothing
)
insert into {schema}.ready (lane, has_serial, ready_at, generation)
select lane, false, ready_at, generation from waiting

-- name: borrowed
-- In the order in which the jobs came.
select running.generation, running.serial::text
from {schema}.running join {schema}.job on job.generation = running.generation
where running.worker = any (%(workers)s::int4[])
order by job.entered

-- name: hold
select generation from {schema}.running
where generation = any (%(generations)s::int8[])
order by generation
for update skip locked

-- name: clear
update {schema}.worker set is_cleared = true
where number = any (%(workers)s::int4[])
    and not exists (select 1 from {schema}.running where running.worker = worker.number)
