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

-- name: rivals
-- Other jobs of one key, in the order in which they came.
select job.id, job.generation,
    not exists (select 1 from {schema}.running where running.generation = job.generation)
        and not exists (select 1 from {schema}.ended where ended.generation = job.generation)
from {schema}.job join {schema}.lane on lane.number = job.lane
where hashtextextended(job.key, 0) = hashtextextended(%(key)s, 0) and job.key = %(key)s
    and lane.task = %(task)s and job.generation <> %(generation)s
order by job.entered
