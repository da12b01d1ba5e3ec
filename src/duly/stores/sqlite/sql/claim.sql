-- claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.

-- name: present
-- A worker that claims has a lease, even before its first beat; a lease in force is left alone.
insert into duly_worker (id, name, host, pid, started_at, queues, tasks, slots, version, lease_until, boot_id, seen_at)
values (:worker, :worker, '', 0, :now, '[]', '[]', 0, '', :lease_until, :boot_id, :now)
on conflict (id) do update set lease_until = excluded.lease_until, boot_id = excluded.boot_id
where duly_worker.boot_id <> excluded.boot_id or duly_worker.lease_until <= :boot

-- name: running
-- How many jobs of some tasks are on loan, without looking at those of other tasks.
select task.value, count(*)
from json_each(:workers) as worker cross join json_each(:tasks) as task
cross join duly_job as job indexed by duly_job_running
    on job.state = 'running' and job.worker = worker.value and job.task = task.value
group by task.value

-- name: ready
-- A text for each column, and how many jobs are not plain: a row that comes back by itself gives up the interpreter
-- and takes it again, which beside a busy thread cost ten times as much as the row. What is plain in most jobs
-- travels together, or not at all.
select json_group_array(ready_at), json_group_array(generation), json_group_array(id), json_group_array(arguments),
    json_group_array(context), json_group_array(json(rest)), count(rest)
from (
    select ready_at, generation, id, arguments, nullif(context, '{}') as context,
        iif(serial is null and key is null and epoch + attempt + crashes + deferrals + cycle + is_suspect = 0
                and due = ready_at and tick is null and first_failure is null, null,
            json_array(epoch + 1, due, key, attempt, crashes, deferrals, cycle, is_suspect, tick, first_failure,
                serial, per_key)
        ) as rest
    from duly_job indexed by duly_job_ready
    where state = 'waiting' and is_parked = 0 and queue = :queue and task = :task and rank = :rank
        and ready_at <= :now
    order by ready_at, generation
    limit :limit)

-- name: on_loan
select serial, count(*) from duly_job indexed by duly_job_serial
where serial in (select value from json_each(:serials))
    and state in ('waiting', 'running') and state = 'running'
group by serial

-- name: lend
update duly_job
set state = 'running', epoch = epoch + 1, nonce = :nonce, worker = :worker,
    has_begun = 0, began_isolated = 0, progress = null, wish = nullif(wish, 'hurry'),
    spare = substr(spare, 1 + length(:worker) + length(:nonce))
where generation in (select value from json_each(:generations))

-- name: park
update duly_job set is_parked = 1 where generation in (select value from json_each(:generations))

-- name: behind_runs
-- Ready jobs of some lanes whose serial is on loan, and how often. They are found from the runs, so
-- the backlog is not walked.
select job.rank, job.ready_at, job.generation, job.serial, job.per_key, held.runs
from (
    select serial, count(*) as runs from duly_job indexed by duly_job_running
    where state = 'running' and serial is not null group by serial) as held
cross join duly_job as job indexed by duly_job_serial
    on job.serial = held.serial and job.state in ('waiting', 'running')
where job.state = 'waiting' and job.is_parked = 0 and job.ready_at <= :now
    and job.per_key > 0 and job.per_key <= held.runs
    and (job.queue, job.task) in (select value ->> 0, value ->> 1 from json_each(:lanes))

-- name: openings
-- For each (queue, task, rank): when the next job there becomes due, and whether one is ready now.
select lane.key,
    (select ready_at from duly_job indexed by duly_job_ready
        where state = 'waiting' and is_parked = 0 and queue = lane.value ->> 0 and task = lane.value ->> 1
            and rank = lane.value ->> 2 and ready_at > :now
        order by ready_at limit 1),
    exists (select 1 from duly_job indexed by duly_job_ready
        where state = 'waiting' and is_parked = 0 and queue = lane.value ->> 0 and task = lane.value ->> 1
            and rank = lane.value ->> 2 and ready_at <= :now)
from json_each(:lanes) as lane
order by lane.key

-- name: starts
select at from duly_start where task = :task and at > :since order by at desc, number desc limit :starts

-- name: forget_starts
delete from duly_start where task = :task and at <= :since

-- name: start
insert into duly_start (task, at) select value, :now from json_each(:tasks)
