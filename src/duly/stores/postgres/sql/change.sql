-- change: keys of changed rows, consumed and never followed by a cursor: late commits count like early ones.

-- name: is_any
select 1 where exists (select 1 from {schema}.change) or exists (select 1 from {schema}.alarm)
    or exists (select 1 from {schema}.reaction where scan is not null and condition = 'active')

-- name: consume
delete from {schema}.change
where ctid = any (array(select ctid from {schema}.change limit %(limit)s for update skip locked))
returning source, key, reaction, is_quiet

-- name: alarms
-- Those that no transaction has leaned on which is still open: its change is not to be seen yet.
delete from {schema}.alarm
where ctid = any (array(select ctid from {schema}.alarm for update skip locked))
returning source

-- name: empty_log
-- Where it has become so large that triggers append no more.
select {schema}.empty_log() where pg_relation_size('{literal}.change') > %(limit)s

-- name: is_flood
select pg_relation_size('{literal}.change') > %(flood)s * 20
    and (select count(*) from (select 1 from {schema}.change limit %(flood)s) as piled) >= %(flood)s

-- name: drain
with gone as (
    delete from {schema}.change
    where ctid = any (array(select ctid from {schema}.change for update skip locked))
    returning source
)
select source, count(*) from gone group by source

-- name: later
-- Which of these keys users changed, with nobody having consumed it yet.
select distinct key from {schema}.change
where source = %(source)s and reaction is null and key = any (%(keys)s::text[])

-- name: append
insert into {schema}.change (source, reaction, is_quiet, key)
select %(source)s, %(reaction)s, given.is_quiet, given.key
from unnest(%(quiet)s::bool[], %(keys)s::text[]) as given (is_quiet, key)

-- name: load
-- What is known of documents, and what became of their jobs.
select document.serial::text, document.seen, document.is_matched, document.job, document.since, document.told,
    case when job.generation is null then null
        else coalesce(ended.state, case when running.generation is null then 'waiting' else 'running' end) end
from {schema}.document
left join {schema}.job on job.id = document.job
left join {schema}.ended on ended.generation = job.generation
left join {schema}.running on running.generation = job.generation
where document.serial = any (%(serials)s::uuid[])

-- name: save
insert into {schema}.document (serial, reaction, key, is_matched, is_there, since, active_at, seen, job, told)
select given.serial, %(reaction)s, given.key, given.is_matched, given.is_there, given.since, %(now)s, given.seen,
    given.job, given.told
from unnest(%(serial)s::uuid[], %(key)s::text[], %(is_matched)s::bool[], %(is_there)s::bool[],
    %(since)s::int8[], %(seen)s::text[], %(job)s::text[], %(told)s::text[])
    as given (serial, key, is_matched, is_there, since, seen, job, told)
on conflict (serial) do update
set is_matched = excluded.is_matched, is_there = excluded.is_there, since = excluded.since,
    active_at = excluded.active_at, seen = excluded.seen, job = excluded.job, told = excluded.told

-- name: next
-- The end of the next stretch of documents that are known to match.
select max(serial::text), count(*) from (
    select serial from {schema}.document
    where reaction = %(reaction)s and is_matched and (%(after)s::uuid is null or serial > %(after)s::uuid)
    order by serial limit %(limit)s) as stretch

-- name: revisit
update {schema}.document set seen = null where serial = any (%(serials)s::uuid[])

-- name: clear
-- Before jobs are pruned: what a run that came to nothing had seen is not dealt with.
update {schema}.document set seen = null
from (
    select job.id, job.serial
    from {schema}.ended join {schema}.job on job.generation = ended.generation
    where ended.forget_at <= %(now)s and ended.state <> 'done' and job.serial is not null
    order by ended.forget_at
    limit %(limit)s) as old
where document.serial = old.serial and document.job = old.id

-- name: undo
-- A job that is deleted and did not end well: what it had seen is not dealt with either.
update {schema}.document set seen = null where serial = %(serial)s::uuid and job = %(job)s
