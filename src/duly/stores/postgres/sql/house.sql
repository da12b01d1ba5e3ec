-- house: leaving a store and filling another. Every write reads the notice first, in its own transaction.

-- name: lock
-- Waits for every write in progress, a caller's transaction included, and keeps the next ones out.
lock table {schema}.house in access exclusive mode

-- name: notice
select stage, move, other, cursor from {schema}.house

-- name: put_up
insert into {schema}.house (stage, move, other) values (%(stage)s, %(move)s, %(other)s)
on conflict (only_one) do nothing

-- name: advance
update {schema}.house set stage = %(stage)s
where move = %(move)s and stage = any (%(since)s::text[])
returning 1

-- name: take_down
delete from {schema}.house
where move = %(move)s and stage = any (%(since)s::text[])
returning 1

-- name: raise_seal
select setval('{literal}.seal', case when exists (select 1 from {schema}.house) then 2 else 1 end)

-- name: obstacles
select
    (select count(*) from {schema}.running),
    (select count(*) from {schema}.intake where set_aside < %(format)s) + (select count(*) from {schema}.freed),
    (select count(*) from {schema}.intake where set_aside >= %(format)s)

-- name: is_lived_in
select exists (select 1 from {schema}.job) or exists (select 1 from {schema}.intake)

-- name: pack
select generation from {schema}.job where generation > %(after)s order by generation limit %(limit)s

-- name: insert_workers
-- Ended jobs name their worker by number.
insert into {schema}.worker (id, name, host, pid, started_at, queues, tasks, slots, version, lease_until, seen_at,
    is_cleared, has_left)
select id, id, '', 0, %(now)s, '[]', '[]', 0, '', 0, %(now)s, true, true from unnest(%(ids)s::text[]) as gone (id)
on conflict (id) do nothing

-- name: insert_jobs
insert into {schema}.job (generation, entered, ready_at, due, created_at, keep_done, keep_failed, expires_at,
    expires_after, tick, first_failure, lane, epoch, attempt, crashes, deferrals, cycle, per_key, perpetual, is_suspect,
    serial, overlap, delivery, id, key, chain, context, arguments, error, fingerprint, failed_at)
select generation, entered, ready_at, due, created_at, keep_done, keep_failed, expires_at,
    expires_after, tick, first_failure, lane, epoch, attempt, crashes, deferrals, cycle, per_key, perpetual, is_suspect,
    serial, overlap, delivery, id, key, chain, context, arguments, error, fingerprint, failed_at
from json_to_recordset(%(rows)s::json) as brought (generation int8, entered int8, ready_at int8, due int8,
    created_at int8, keep_done int8, keep_failed int8, expires_at int8, expires_after int8, tick int8,
    first_failure int8, lane int4, epoch int4, attempt int4, crashes int4, deferrals int4, cycle int4, per_key int4,
    perpetual boolean, is_suspect boolean, serial uuid, overlap {schema}.overlap, delivery {schema}.delivery, id text,
    key text, chain text, context text, arguments text, error text, fingerprint text, failed_at int8)

-- name: insert_waiting
-- Where they wait, what stands for their serials, and which may come too late.
with brought as materialized (
    select * from json_to_recordset(%(rows)s::json) as brought (generation int8, state text, is_parked boolean,
        lane int4, ready_at int8, expires_at int8, serial uuid)
    where state = 'waiting'
), lined_up as (
    insert into {schema}.ready (lane, has_serial, ready_at, generation)
    select lane, serial is not null, ready_at, generation from brought where not is_parked
), set_aside as (
    insert into {schema}.parked (generation, lane, ready_at)
    select generation, lane, ready_at from brought where is_parked
), standing as (
    insert into {schema}.standing (serial, generation)
    select serial, generation from brought where serial is not null
)
insert into {schema}.expiry (lane, expires_at, generation)
select lane, expires_at, generation from brought where expires_at is not null

-- name: insert_ended
insert into {schema}.ended (generation, finished_at, forget_at, result_until, lane, epoch, worker, state, reason, result,
    error, fingerprint, failed_at, superseded_by, wish)
select generation, finished_at, forget_at, result_until, lane, epoch,
    (select number from {schema}.worker where worker.id = brought.worker), state, reason, result,
    error, fingerprint, failed_at, superseded_by, wish
from json_to_recordset(%(rows)s::json) as brought (generation int8, finished_at int8, forget_at int8,
    result_until int8, lane int4, epoch int4, worker text, state text, reason text, result text, error text,
    fingerprint text, failed_at int8, superseded_by text, wish text)
where state <> 'waiting'

-- name: insert_words
-- What others said about a waiting job, and what a job said about itself.
with brought as materialized (
    select * from json_to_recordset(%(rows)s::json) as brought (generation int8, epoch int4, state text,
        superseded_by text, wish text, progress text)
), told as (
    insert into {schema}.notice (generation, epoch, superseded_by, wish)
    select generation, epoch, superseded_by, wish from brought
    where state = 'waiting' and (superseded_by is not null or wish is not null)
)
insert into {schema}.remark (generation, epoch, progress)
select generation, epoch, progress from brought where progress is not null

-- name: insert_lines
insert into {schema}.history (entered, at, event, epoch, generation, attempt, worker, started_at, note)
select entered, at, event, epoch, generation, attempt, worker, started_at, note
from rows from (
    json_to_recordset(%(rows)s::json) as (entered int8, at int8, event text, epoch int4, generation int8, attempt int4,
        worker text, started_at int8, note text)) with ordinality
    as brought (entered, at, event, epoch, generation, attempt, worker, started_at, note, place)
order by place

-- name: move_cursor
update {schema}.house set cursor = %(cursor)s
where move = %(move)s and stage = 'arriving' and cursor = %(after)s

-- name: last_number
select case when is_called then last_value else 0 end from {schema}.generation

-- name: windows
select name, until, id from {schema}.guard order by name

-- name: markers
select name, at from {schema}.marker order by name

-- name: locks
select name, owner, token, until - %(boot)s from {schema}.lock where until > %(boot)s order by name

-- name: notes
select kind, name, text from {schema}.record where kind <> %(kind)s order by kind, name

-- name: note_of
select text from {schema}.record where kind = %(kind)s and name = %(name)s

-- name: starts
select task, at from {schema}.start order by at, number

-- name: delivered
select id, until from {schema}.delivered where until > %(now)s order by id

-- name: tallies
select name, sum(amount)::int8 from {schema}.tally group by name

-- name: count_on
select setval('{literal}.generation', greatest(%(last)s, (select last_value from {schema}.generation)))

-- name: insert_tally
insert into {schema}.tally (name, amount) values (%(name)s, %(amount)s)

-- name: insert_window
insert into {schema}.guard (serial, until, id, name) values (%(serial)s::uuid, %(until)s, %(id)s, %(name)s)

-- name: insert_marker
insert into {schema}.marker (serial, at, name) values (%(serial)s::uuid, %(at)s, %(name)s)

-- name: insert_switch
insert into {schema}.switch (scope, name, until, reason) values (%(scope)s, %(name)s, %(until)s, %(reason)s)

-- name: insert_lock
insert into {schema}.lock (name, owner, token, until) values (%(name)s, %(owner)s, %(token)s, %(until)s)

-- name: insert_note
insert into {schema}.record (kind, name, text) values (%(kind)s, %(name)s, %(text)s)
on conflict (kind, name) do update set text = excluded.text

-- name: insert_start
insert into {schema}.start (task, at) values (%(task)s, %(at)s)

-- name: insert_delivered
insert into {schema}.delivered (id, until)
select id, until from unnest(%(ids)s::text[], %(until)s::int8[]) as brought (id, until)

-- name: pages
select number, kind, at, until, text
from (
    select *, row_number() over (partition by kind order by number desc) as place from {schema}.diary) as page
where place <= %(carried)s
order by number

-- name: insert_pages
insert into {schema}.diary (number, kind, at, until, text)
select number, kind, at, until, text
from unnest(%(numbers)s::int8[], %(kinds)s::text[], %(at)s::int8[], %(until)s::int8[], %(texts)s::text[])
    as brought (number, kind, at, until, text)

-- name: drop_pages
delete from {schema}.diary

-- name: drop_delivered
delete from {schema}.delivered

-- name: drop_tallies
delete from {schema}.tally

-- name: drop_windows
delete from {schema}.guard

-- name: drop_markers
delete from {schema}.marker

-- name: drop_switches
delete from {schema}.switch

-- name: drop_locks
delete from {schema}.lock

-- name: drop_starts
delete from {schema}.start

-- name: drop_notes
delete from {schema}.record

-- name: drop_jobs
with jobs as (delete from {schema}.job), ready as (delete from {schema}.ready), parked as (delete from {schema}.parked),
    ended as (delete from {schema}.ended), standing as (delete from {schema}.standing),
    expiry as (delete from {schema}.expiry), notice as (delete from {schema}.notice),
    remark as (delete from {schema}.remark)
delete from {schema}.history
