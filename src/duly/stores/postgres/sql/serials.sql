-- serials: who holds a serial is the only one to move its jobs. A lock writes nothing into the row, so a
-- transaction that reads an old snapshot is not refused because somebody asked for the same key meanwhile.

-- name: lock
-- Makes and locks in one pass, in the order given: an update that changes nothing still locks.
insert into {schema}.serial (digest)
select * from unnest(%(serials)s::uuid[])
on conflict (digest) do update set digest = excluded.digest where false

-- name: try_lock
select digest::text from {schema}.serial
where digest = any (%(serials)s::uuid[])
order by digest
for update skip locked

-- name: make
insert into {schema}.serial (digest)
select * from unnest(%(serials)s::uuid[])
on conflict (digest) do nothing
returning digest::text

-- name: of_runs
-- By generation: the index of serials on loan leads past all that were on loan since the oldest snapshot.
select running.generation, running.serial::text
from unnest(%(generations)s::int8[]) as wanted (generation)
cross join lateral (
    select generation, serial from {schema}.running
    where running.generation = wanted.generation offset 0) as running
where running.serial is not null
