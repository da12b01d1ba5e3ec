-- prune: delete what finished long ago, oldest first, at most so many jobs at a time. Markers stay.
-- Nothing waits for a row that somebody else is looking after.

-- name: look
-- What there is to do. Mostly there is nothing: then this is all that is asked, instead of thirteen statements.
select
    exists (select 1 from {schema}.ended where result_until is not null and result_until <= %(now)s),
    exists (select 1 from {schema}.ended where forget_at <= %(now)s),
    exists (select 1 from {schema}.guard where until <= %(now)s),
    exists (select 1 from {schema}.diary where until <= %(now)s),
    exists (
        select 1 from {schema}.serial
        where not exists (select 1 from {schema}.standing where standing.serial = serial.digest)),
    exists (select 1 from {schema}.delivered where until <= %(now)s)
        or exists (select 1 from {schema}.number where until <= %(now)s),
    (select count(*) from (select 1 from {schema}.tally limit 101) as counted) > 100,
    exists (
        select 1 from {schema}.worker
        where lease_until <= %(boot)s and seen_at <= %(absent)s and not has_left),
    exists (select 1 from {schema}.worker where has_left and is_cleared and seen_at <= %(forgotten)s),
    exists (select 1 from {schema}.lock where until <= %(abandoned)s),
    exists (select 1 from {schema}.switch where until <= %(absent)s)

-- name: drop_results
update {schema}.ended set result = null, result_until = null
where generation in (
    select generation from {schema}.ended
    where result_until is not null and result_until <= %(now)s
    for update skip locked)

-- name: old
-- The beginning of a statement: see `drop`.
with old as materialized (
    select ended.generation, job.id, job.entered, job.lane, job.expires_at
    from {schema}.ended join {schema}.job on job.generation = ended.generation
    where ended.forget_at <= %(now)s
    order by ended.forget_at, job.entered
    limit %(limit)s
    for update of ended skip locked
)

-- name: drop_windows
delete from {schema}.guard
where serial in (select serial from {schema}.guard where until <= %(now)s for update skip locked)

-- name: drop_serials
-- Rows that are only there to be locked, and that nobody will want to lock soon.
with idle as materialized (
    select digest from {schema}.serial
    where not exists (select 1 from {schema}.standing where standing.serial = serial.digest)
    limit %(limit)s
    for update skip locked
)
delete from {schema}.serial using idle where serial.digest = idle.digest

-- name: fold_tallies
with counted as (
    delete from {schema}.tally
    where number in (select number from {schema}.tally for update skip locked)
        and (select count(*) from {schema}.tally) > 100
    returning name, amount
)
insert into {schema}.tally (name, amount) select name, sum(amount) from counted group by name

-- name: drop_locks
-- Locks that nobody let go.
delete from {schema}.lock
where name in (select name from {schema}.lock where until <= %(abandoned)s for update skip locked)

-- name: drop_switches
delete from {schema}.switch
where number in (select number from {schema}.switch where until <= %(absent)s for update skip locked)

-- name: hide_workers
-- Dead without a word, and nothing of theirs is left to take over.
update {schema}.worker set has_left = true, is_cleared = true
where number in (
    select number from {schema}.worker
    where lease_until <= %(boot)s and seen_at <= %(absent)s and not has_left
        and not exists (select 1 from {schema}.running where running.worker = worker.number)
    for update skip locked)

-- name: drop_workers
delete from {schema}.worker
where number in (
    select number from {schema}.worker
    where has_left and is_cleared and seen_at <= %(forgotten)s
    for update skip locked)
