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
select generation, serial::text from {schema}.running
where generation = any (%(generations)s::int8[]) and serial is not null
