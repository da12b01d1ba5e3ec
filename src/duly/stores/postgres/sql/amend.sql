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

-- name: ended
-- Jobs that have ended hold nothing and nobody waits for them: they go together. What one that did not end well
-- had seen is not dealt with either. The beginning of a statement: see `drop`.
with old as materialized (
    select ended.generation, ended.state, job.id, job.serial, job.entered, job.lane, job.expires_at
    from {schema}.ended join {schema}.job on job.generation = ended.generation
    where ended.generation = any (%(generations)s::int8[])
    order by ended.generation
    for update of ended
), sights as (
    update {schema}.document set seen = null from old
    where document.serial = old.serial and document.job = old.id and old.state <> 'done'
)

-- name: rivals
-- Other jobs of one key, in the order in which they came.
select job.id, job.generation,
    not exists (select 1 from {schema}.running where running.generation = job.generation)
        and not exists (select 1 from {schema}.ended where ended.generation = job.generation)
from {schema}.job join {schema}.lane on lane.number = job.lane
where hashtextextended(job.key, 0) = hashtextextended(%(key)s, 0) and job.key = %(key)s
    and lane.task = %(task)s and job.generation <> %(generation)s
order by job.entered
