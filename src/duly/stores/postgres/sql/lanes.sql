-- lanes: a number for each queue, task and priority. Made one at a time, so that numbers become visible in
-- rising order, and never taken back.

-- name: serialise
-- Not a lock of the table: a vacuum of it, or a person's ANALYZE, would keep new lanes out.
select pg_advisory_xact_lock(hashtextextended('duly lane', '{literal}.lane'::regclass::oid::int8))

-- name: make
insert into {schema}.lane (queue, task, priority)
select queue, task, priority
from unnest(%(queues)s::text[], %(tasks)s::text[], %(priorities)s::int2[]) as made (queue, task, priority)
on conflict (queue, task, priority) do nothing

-- name: made
select lane.number, lane.queue, lane.task, lane.priority
from unnest(%(queues)s::text[], %(tasks)s::text[], %(priorities)s::int2[]) as made (queue, task, priority)
join {schema}.lane using (queue, task, priority)

-- name: since
select number, queue, task, priority from {schema}.lane where number > %(newest)s order by number
