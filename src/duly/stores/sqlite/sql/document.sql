-- document: what is known of a row for one task.

-- name: load
select document.key, document.seen, document.is_matched, document.job, document.since, document.told, job.state
from json_each(:keys) as wanted
cross join duly_document as document on document.reaction = :reaction and document.key = wanted.value
left join duly_job as job on job.id = document.job

-- name: load_one
select document.key, document.seen, document.is_matched, document.job, document.since, document.told, job.state
from duly_document as document
left join duly_job as job on job.id = document.job
where document.reaction = :reaction and document.key = :key

-- name: save
insert into duly_document (reaction, key, part1, part2, part3, part4, seen, is_matched, is_there, job, since, told,
    active_at)
values (:reaction, :key, :part1, :part2, :part3, :part4, :seen, :is_matched, :is_there, :job, :since, :told, :now)
on conflict (reaction, key) do update
set seen = excluded.seen, is_matched = excluded.is_matched, is_there = excluded.is_there, job = excluded.job,
    since = excluded.since, told = excluded.told, active_at = excluded.active_at

-- name: first
-- The end of the first stretch of documents that are known to match.
select max(key), count(*) from (
    select key from duly_document where reaction = :reaction and is_matched = 1 order by key limit :limit)

-- name: next
-- The end of the stretch behind that.
select max(key), count(*) from (
    select key from duly_document
    where reaction = :reaction and is_matched = 1 and key > :after order by key limit :limit)

-- name: postpone
update duly_job set ready_at = :due, due = :due where id = :id and state = 'waiting'

-- name: came_to_nothing
-- Jobs about to be pruned that did not end well.
select duly_reaction.number, duly_job.key, duly_job.id
from json_each(:generations) as pruned
join duly_job on duly_job.generation = pruned.value and duly_job.state <> 'done'
join duly_reaction on duly_reaction.task = duly_job.task

-- name: clear
-- What such a job had seen is not dealt with.
update duly_document set seen = null where reaction = :reaction and key = :key and job = :job

-- name: undo
-- A job that is deleted and did not end well: what it had seen is not dealt with either.
update duly_document set seen = null
where reaction in (select number from duly_reaction where task = :task) and key = :key and job = :job
