-- amend: an operator's order over a selection, job by job, newest first.

-- name: hold_running
select generation from {schema}.running
where generation = any (%(generations)s::int8[])
order by generation
for update

-- name: hold_ready
select ready.generation
from {schema}.job
join {schema}.ready on ready.lane = job.lane and ready.ready_at = job.ready_at
    and ready.generation = job.generation
where job.generation = any (%(generations)s::int8[])
order by ready.generation
for update of ready

-- name: hold_ended
select generation from {schema}.ended
where generation = any (%(generations)s::int8[])
order by generation
for update

-- name: there
select generation from {schema}.job where generation = any (%(generations)s::int8[])

-- name: drop_ended
-- Jobs that have ended hold nothing and nobody waits for them: they go together, with all they left. What one
-- that did not end well had seen is not dealt with either.
with old as materialized (
    select ended.generation, ended.state, job.id, job.serial, job.entered, job.lane, job.expires_at
    from {schema}.ended join {schema}.job on job.generation = ended.generation
    where ended.generation = any (%(generations)s::int8[])
    order by ended.generation
    for update of ended
), ends as (
    delete from {schema}.ended using old where ended.generation = old.generation
), lines as (
    delete from {schema}.history using old where history.entered = old.entered
), remarks as (
    delete from {schema}.remark using old where remark.generation = old.generation
), expiring as (
    delete from {schema}.expiry using old
    where expiry.lane = old.lane and expiry.expires_at = old.expires_at and expiry.generation = old.generation
), sights as (
    update {schema}.document set seen = null from old
    where document.serial = old.serial and document.job = old.id and old.state <> 'done'
), jobs as (
    delete from {schema}.job using old where job.generation = old.generation
)
select generation, id from old

-- name: rivals
-- Other jobs of one key, in the order in which they came.
select job.id, job.generation,
    not exists (select 1 from {schema}.running where running.generation = job.generation)
        and not exists (select 1 from {schema}.ended where ended.generation = job.generation)
from {schema}.job join {schema}.lane on lane.number = job.lane
where hashtextextended(job.key, 0) = hashtextextended(%(key)s, 0) and job.key = %(key)s
    and lane.task = %(task)s and job.generation <> %(generation)s
order by job.entered
