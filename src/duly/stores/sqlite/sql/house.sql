-- house: leaving a store and filling another. The notice is read by every write, in its own transaction.

-- name: notice
select stage, move, other, cursor from duly_house

-- name: door
-- The oldest code that the schema serves, the notice, and whether the intake waits.
select max(oldest_code), (select json_array(stage, move, other, cursor) from duly_house),
    exists (select 1 from duly_intake indexed by duly_intake_unread where set_aside < :format)
from duly_schema

-- name: put_up
insert into duly_house (only_one, stage, move, other) values (1, :stage, :move, :other)
on conflict (only_one) do nothing

-- name: advance
-- From one of some stages to another, if it is still the same move.
update duly_house set stage = :stage
where move = :move and stage in (select value from json_each(:since))
returning 1

-- name: take_down
delete from duly_house
where move = :move and stage in (select value from json_each(:since))
returning 1

-- name: obstacles
select
    (select count(*) from duly_job indexed by duly_job_running where state = 'running'),
    (select count(*) from duly_intake where set_aside < :format),
    (select count(*) from duly_intake where set_aside >= :format)

-- name: is_lived_in
select exists (select 1 from duly_job) or exists (select 1 from duly_intake)

-- name: pack
select generation from duly_job where generation > :after order by generation limit :limit

-- name: insert_job
insert into duly_job (generation, id, entered, task, queue, rank, state, is_parked, ready_at, due, created_at, epoch,
    worker, attempt, crashes, deferrals, cycle, is_suspect, key, serial, per_key, overlap, delivery, perpetual,
    keep_done, keep_failed, expires_at, expires_after, tick, first_failure, superseded_by, wish, finished_at, forget_at,
    result_until, reason, context, arguments, progress, result, error, error_folded, fingerprint, failed_at)
values (:generation, :id, :entered, :task, :queue, :rank, :state, :is_parked, :ready_at, :due, :created_at, :epoch,
    :worker, :attempt, :crashes, :deferrals, :cycle, :is_suspect, :key, :serial, :per_key, :overlap, :delivery, :perpetual,
    :keep_done, :keep_failed, :expires_at, :expires_after, :tick, :first_failure, :superseded_by, :wish, :finished_at, :forget_at,
    :result_until, :reason, :context, :arguments, :progress, :result, :error, :error_folded, :fingerprint, :failed_at)

-- name: insert_line
insert into duly_history (job, at, event, epoch, generation, attempt, worker, started_at, note)
values (:job, :at, :event, :epoch, :generation, :attempt, :worker, :started_at, :note)

-- name: move_cursor
update duly_house set cursor = :cursor where move = :move and stage = 'arriving' and cursor = :after
returning 1

-- name: last_number
select max(value, coalesce((select max(generation) from duly_job), 0)) from duly_counter where name = 'number'

-- name: windows
select serial, until, id from duly_window order by serial

-- name: markers
select serial, at from duly_marker order by serial

-- name: locks
select name, owner, token, until - :boot from duly_lock
where boot_id = :boot_id and until > :boot order by name

-- name: notes
select kind, name, text from duly_record where kind <> :kind order by kind, name

-- name: note_of
select text from duly_record where kind = :kind and name = :name

-- name: starts
select task, at from duly_start order by at, number

-- name: delivered
select id, until from duly_delivered where until > :now order by id

-- name: tallies
select name, amount from duly_tally

-- name: count_on
update duly_counter set value = max(value, :last) where name = 'number'

-- name: insert_tally
insert into duly_tally (name, amount) values (:name, :amount)

-- name: insert_window
insert into duly_window (serial, until, id) values (:serial, :until, :id)

-- name: insert_marker
insert into duly_marker (serial, at) values (:serial, :at)

-- name: insert_switch
insert into duly_switch (scope, name, until, reason) values (:scope, :name, :until, :reason)

-- name: insert_lock
insert into duly_lock (name, owner, token, until, boot_id) values (:name, :owner, :token, :until, :boot_id)

-- name: insert_note
insert into duly_record (kind, name, text) values (:kind, :name, :text)
on conflict (kind, name) do update set text = excluded.text

-- name: insert_start
insert into duly_start (task, at) values (:task, :at)

-- name: insert_delivered
insert into duly_delivered (id, until) values (:id, :until)

-- name: pages
select number, kind, at, until, text
from (
    select *, row_number() over (partition by kind order by number desc) as place from duly_diary) as page
where place <= :carried
order by number

-- name: insert_page
insert into duly_diary (number, kind, at, until, text) values (:number, :kind, :at, :until, :text)

-- name: drop_pages
delete from duly_diary

-- name: drop_delivered
delete from duly_delivered

-- name: drop_tallies
delete from duly_tally

-- name: drop_windows
delete from duly_window

-- name: drop_markers
delete from duly_marker

-- name: drop_switches
delete from duly_switch

-- name: drop_locks
delete from duly_lock

-- name: drop_notes
delete from duly_record

-- name: drop_starts
delete from duly_start

-- name: drop_jobs
delete from duly_job

-- name: drop_history
delete from duly_history
