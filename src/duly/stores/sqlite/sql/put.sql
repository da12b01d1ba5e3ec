-- put: create, keep, queue or supersede by key, and say which.
-- Requests whose serial nobody holds are stored in one statement; the others are placed one by one.

-- name: insert_alike
-- Many requests that differ only in id and arguments: [[id, arguments], ...], numbered after :last.
insert into duly_job (generation, entered, id, arguments, task, queue, rank, ready_at, due, created_at, key,
    serial, per_key, overlap, delivery, perpetual, keep_done, keep_failed, expires_at, expires_after,
    tick, context)
select :last + batch.key + 1, :last + batch.key + 1, batch.value ->> 0, batch.value ->> 1, :task, :queue, :rank,
    :due, :due, :created_at, :key, :serial, :per_key, :overlap, :delivery, :perpetual, :keep_done,
    :keep_failed, :expires_at, :expires_after, :tick, :context
from json_each(:batch) as batch
where true
on conflict (id) do nothing

-- name: insert_each
-- Requests of any shape: every column comes from the batch.
insert into duly_job (generation, entered, id, arguments, task, queue, rank, ready_at, due, created_at, key,
    serial, per_key, overlap, delivery, perpetual, keep_done, keep_failed, expires_at, expires_after,
    tick, context, is_parked)
select :last + batch.key + 1, :last + batch.key + 1, batch.value ->> 0, batch.value ->> 1, batch.value ->> 2,
    batch.value ->> 3, batch.value ->> 4, batch.value ->> 5, batch.value ->> 5, batch.value ->> 6,
    batch.value ->> 7, batch.value ->> 8, batch.value ->> 9, batch.value ->> 10, batch.value ->> 11,
    batch.value ->> 12, batch.value ->> 13, batch.value ->> 14, batch.value ->> 15, batch.value ->> 16,
    batch.value ->> 17, batch.value ->> 18, batch.value ->> 19
from json_each(:batch) as batch
where true
on conflict (id) do nothing

-- name: insert_one
-- Bound value by value, for texts that JSON inside SQLite would cut at a zero character.
insert into duly_job (generation, entered, id, arguments, task, queue, rank, ready_at, due, created_at, key,
    serial, per_key, overlap, delivery, perpetual, keep_done, keep_failed, expires_at, expires_after,
    tick, context, is_parked)
values (:last + 1, :last + 1, :id, :arguments, :task, :queue, :rank, :due, :due, :created_at, :key, :serial,
    :per_key, :overlap, :delivery, :perpetual, :keep_done, :keep_failed, :expires_at, :expires_after,
    :tick, :context, :is_parked)

-- name: created
select changes()

-- name: withdraw
delete from duly_job where generation > :last

-- name: give_back
update duly_counter set value = :last where name = 'number'

-- name: known
select generation from duly_job where id = :id

-- name: taken
-- Which serials of the batch have something standing for them.
select batch.value
from json_each(:serials) as batch
where exists (
        select 1 from duly_job indexed by duly_job_serial
        where serial = batch.value and state in ('waiting', 'running'))
    or exists (select 1 from duly_marker where serial = batch.value)

-- name: oldest
-- The oldest of many that wait for a serial: the first that is not parked, or the first that is.
select * from (
    select id, key, generation from duly_job indexed by duly_job_serial
    where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and is_parked = 0
    order by generation limit 1)
union all
select * from (
    select id, key, generation from duly_job indexed by duly_job_serial
    where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and is_parked = 1
    order by generation limit 1)
order by generation
limit 1

-- name: of_key
-- What waits for one key of a serial with many: few jobs ever bear the key of one tick.
select id, key, generation from duly_job indexed by duly_job_key
where key = :key and serial = :serial and state = 'waiting'
order by generation

-- name: window
select until, id from duly_window where serial = :serial

-- name: has_marker
select 1 from duly_marker where serial = :serial

-- name: open_window
insert into duly_window (serial, until, id) values (:serial, :until, :id)
on conflict (serial) do update set until = excluded.until, id = excluded.id
