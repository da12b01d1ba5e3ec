-- select: which jobs an operator or a page means, newest request first, without walking over the rest.
-- Lists are JSON; one that is null selects everything, and none of the spared queues.

-- name: newest
select generation from duly_job
where generation < :before and queue not in (select value from json_each(:spared))
order by generation desc limit :limit

-- name: by_id
select generation from duly_job
where id in (select value from json_each(:ids)) and generation < :before
    and (:key is null or key = :key)
    and (:error is null or instr(error_folded, :error) > 0)
    and (:fingerprint is null or fingerprint = :fingerprint)
    and (:tasks is null or task in (select value from json_each(:tasks)))
    and (:states is null or state in (select value from json_each(:states)))
    and (:queues is null or queue in (select value from json_each(:queues)))
order by generation desc limit :limit

-- name: by_key
select generation from duly_job indexed by duly_job_key
where key = :key and generation < :before
    and (:error is null or instr(error_folded, :error) > 0)
    and (:fingerprint is null or fingerprint = :fingerprint)
    and (:tasks is null or task in (select value from json_each(:tasks)))
    and (:states is null or state in (select value from json_each(:states)))
    and (:queues is null or queue in (select value from json_each(:queues)))
    and queue not in (select value from json_each(:spared))
order by generation desc limit :limit

-- name: by_fingerprint
select generation from duly_job indexed by duly_job_fingerprint
where fingerprint = :fingerprint and generation < :before and generation >= :since
    and (:error is null or instr(error_folded, :error) > 0)
    and (:tasks is null or task in (select value from json_each(:tasks)))
    and (:states is null or state in (select value from json_each(:states)))
    and (:queues is null or queue in (select value from json_each(:queues)))
    and queue not in (select value from json_each(:spared))
order by generation desc limit :limit

-- name: by_error
select generation from duly_job indexed by duly_job_error
where error is not null and generation < :before and generation >= :since
    and instr(error_folded, :error) > 0
    and (:tasks is null or task in (select value from json_each(:tasks)))
    and (:states is null or state in (select value from json_each(:states)))
    and (:queues is null or queue in (select value from json_each(:queues)))
    and queue not in (select value from json_each(:spared))
order by generation desc limit :limit

-- name: waiting_groups
with recursive lane (queue, task) as (
    select * from (
        select queue, task from duly_job indexed by duly_job_waiting
        where state = 'waiting' order by queue, task limit 1)
    union all
    select job.queue, job.task
    from lane cross join duly_job as job on job.generation = coalesce(
        (select generation from duly_job indexed by duly_job_waiting
            where state = 'waiting' and queue = lane.queue and task > lane.task order by task limit 1),
        (select generation from duly_job indexed by duly_job_waiting
            where state = 'waiting' and queue > lane.queue order by queue, task limit 1))
)
select queue, task, 'waiting' from lane

-- name: ended_groups
with recursive lane (queue, task, state) as (
    select * from (
        select queue, task, state from duly_job indexed by duly_job_ended
        where state not in ('waiting', 'running') order by queue, task, state limit 1)
    union all
    select job.queue, job.task, job.state
    from lane cross join duly_job as job on job.generation = coalesce(
        (select generation from duly_job indexed by duly_job_ended
            where state not in ('waiting', 'running') and queue = lane.queue and task = lane.task and state > lane.state
            order by state limit 1),
        (select generation from duly_job indexed by duly_job_ended
            where state not in ('waiting', 'running') and queue = lane.queue and task > lane.task
            order by task, state limit 1),
        (select generation from duly_job indexed by duly_job_ended
            where state not in ('waiting', 'running') and queue > lane.queue order by queue, task, state limit 1))
)
select queue, task, state from lane

-- name: waiting_in
select generation from duly_job indexed by duly_job_waiting
where state = 'waiting' and queue = :queue and task = :task and generation < :before
order by generation desc limit :limit

-- name: ended_in
select generation from duly_job indexed by duly_job_ended
where state not in ('waiting', 'running') and queue = :queue and task = :task and state = :state and generation < :before
order by generation desc limit :limit

-- name: running
select generation, queue, task from duly_job indexed by duly_job_running
where state = 'running' and generation < :before

-- name: count_waiting_in
select count(*) from duly_job indexed by duly_job_waiting
where state = 'waiting' and queue = :queue and task = :task

-- name: count_ended_in
select count(*) from duly_job indexed by duly_job_ended
where state not in ('waiting', 'running') and queue = :queue and task = :task and state = :state

-- name: reach_by_fingerprint
-- How far so many jobs reach: the generation of the last of them.
select generation from duly_job indexed by duly_job_fingerprint
where fingerprint = :fingerprint and generation < :before
order by generation desc limit 1 offset :others

-- name: reach_by_error
select generation from duly_job indexed by duly_job_error
where error is not null and generation < :before
order by generation desc limit 1 offset :others
