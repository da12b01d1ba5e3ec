-- row: one job, read whole, changed by a decision made outside the database, and written back.
-- The caller holds the write lock from the first read to the last write.

-- name: load
select generation, id, entered, task, queue, rank, state, is_parked, ready_at, due, created_at, epoch, nonce,
    worker, attempt, crashes, deferrals, cycle, is_suspect, has_begun, began_isolated, key, serial, per_key,
    overlap, delivery, perpetual, keep_done, keep_failed, expires_at, expires_after, tick, first_failure,
    superseded_by, wish, finished_at, forget_at, result_until, reason, context, arguments, progress, result, error,
    fingerprint, failed_at, event, started_at
from duly_job
where id = :id

-- name: load_many
select generation, id, entered, task, queue, rank, state, is_parked, ready_at, due, created_at, epoch, nonce,
    worker, attempt, crashes, deferrals, cycle, is_suspect, has_begun, began_isolated, key, serial, per_key,
    overlap, delivery, perpetual, keep_done, keep_failed, expires_at, expires_after, tick, first_failure,
    superseded_by, wish, finished_at, forget_at, result_until, reason, context, arguments, progress, result, error,
    fingerprint, failed_at, event, started_at
from duly_job
where generation in (select value from json_each(:generations))

-- name: save
update duly_job
set queue = :queue, rank = :rank, state = :state, is_parked = :is_parked, ready_at = :ready_at, due = :due,
    epoch = :epoch, nonce = :nonce, worker = :worker, attempt = :attempt, crashes = :crashes,
    deferrals = :deferrals, cycle = :cycle, is_suspect = :is_suspect, has_begun = :has_begun,
    began_isolated = :began_isolated, expires_at = :expires_at, expires_after = :expires_after,
    first_failure = :first_failure, superseded_by = :superseded_by, wish = :wish, finished_at = :finished_at,
    forget_at = :forget_at, result_until = :result_until, reason = :reason, context = :context, arguments = :arguments,
    progress = :progress, result = :result, error = :error, error_folded = :error_folded,
    fingerprint = :fingerprint, failed_at = :failed_at, event = :event, started_at = :started_at
where generation = :generation

-- name: renumber
update duly_job set generation = :next where generation = :generation

-- name: note
insert into duly_history (job, at, event, epoch, generation, attempt, worker, started_at, note)
values (:job, :at, :event, :epoch, :generation, :attempt, :worker, :started_at, :note)

-- name: write_down
-- The line that the row tells, before it tells another story or is not the last any more.
insert into duly_history (job, at, event, epoch, generation, attempt, worker, started_at, note)
select entered, finished_at, event, epoch, generation, attempt, worker, started_at, ''
from duly_job where generation = :generation and event is not null

-- name: told
update duly_job set event = null, started_at = null where generation = :generation

-- name: remove
delete from duly_job where generation = :generation

-- name: remove_history
delete from duly_history where job = :entered

-- name: waiting
-- What waits for a serial, oldest request first.
select id, key, generation from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running') and state = 'waiting'
order by generation

-- name: running
-- What runs for a serial, oldest request first.
select id, key, generation from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running') and state = 'running'
order by generation

-- name: is_live
select 1 from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running')
limit 1

-- name: parked
-- The oldest parked request of a serial, whether another waits unparked, and how many run.
select generation, per_key, overlap,
    exists (
        select 1 from duly_job indexed by duly_job_serial
        where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and is_parked = 0),
    (select count(*) from duly_job indexed by duly_job_serial
        where serial = :serial and state in ('waiting', 'running') and state = 'running')
from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and is_parked = 1
order by generation
limit 1

-- name: unpark
update duly_job set is_parked = 0 where generation = :generation

-- name: mark
insert into duly_marker (serial, at) values (:serial, :at)
on conflict (serial) do update set at = excluded.at

-- name: unmark
delete from duly_marker where serial = :serial

-- name: draw
-- Beyond every number that a row tells or the counter remembers.
update duly_counter
set value = :amount + max(value, coalesce((select max(generation) from duly_job), 0))
where name = 'number'
returning value

-- name: tally
insert into duly_tally (name, amount) values (:name, :amount)
on conflict (name) do update set amount = amount + excluded.amount

-- name: trim
-- The newest lines of a job that goes round and round.
delete from duly_history
where job = :entered and number <= (
    select number from duly_history where job = :entered order by number desc limit 1 offset :lines)
