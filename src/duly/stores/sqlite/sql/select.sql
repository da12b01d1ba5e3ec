-- select: which jobs an operator or a page means, newest request first, without walking over the rest.
-- Lists are JSON; one that is null selects everything, and none of the spared queues.

-- name: newest
-- In the order of the table: once a nearly empty one was analysed, an index and a sort would seem as good.
select generation from duly_job not indexed
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
        select queue, task from duly_job indexed by duly_job_ready
        where state = 'waiting' and is_parked = 0 order by queue, task limit 1)
    union all
    select job.queue, job.task
    from lane cross join duly_job as job on job.generation = coalesce(
        (select generation from duly_job indexed by duly_job_ready
            where state = 'waiting' and is_parked = 0 and queue = lane.queue and task > lane.task order by task limit 1),
        (select generation from duly_job indexed by duly_job_ready
            where state = 'waiting' and is_parked = 0 and queue > lane.queue order by queue, task limit 1))
), parked (queue, task) as (
    select * from (
        select queue, task from duly_job indexed by duly_job_parked
        where state = 'waiting' and is_parked = 1 order by queue, task limit 1)
    union all
    select job.queue, job.task
    from parked cross join duly_job as job on job.generation = coalesce(
        (select generation from duly_job indexed by duly_job_parked
            where state = 'waiting' and is_parked = 1 and queue = parked.queue and task > parked.task
            order by task limit 1),
        (select generation from duly_job indexed by duly_job_parked
            where state = 'waiting' and is_parked = 1 and queue > parked.queue order by queue, task limit 1))
)
select queue, task, 'waiting' from lane union select queue, task, 'waiting' from parked

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

-- name: latest_waiting
-- Of the newest jobs, whatever became of them, those that wait. Mostly that is all a page shows of a long queue.
select generation, queue, task from (
    select generation, queue, task, state from duly_job not indexed
    where generation < :before order by generation desc limit :window)
where state = 'waiting'

-- name: waiting_in
-- Looks at all that wait in the lane: claims need them in another order, and an index for this one would be written
-- with every request.
select generation from (
    select generation from duly_job indexed by duly_job_ready
    where state = 'waiting' and is_parked = 0 and queue = :queue and task = :task and generation < :before
    union all
    select generation from duly_job indexed by duly_job_parked
    where state = 'waiting' and is_parked = 1 and queue = :queue and task = :task and generation < :before)
order by generation desc limit :limit

-- name: ended_in
select generation from duly_job indexed by duly_job_ended
where state not in ('waiting', 'running') and queue = :queue and task = :task and state = :state and generation < :before
order by generation desc limit :limit

-- name: running
select generation, queue, task from duly_job indexed by duly_job_running
where state = 'running' and generation < :before

-- name: count_waiting_in
select
    (select count(*) from duly_job indexed by duly_job_ready
        where state = 'waiting' and is_parked = 0 and queue = :queue and task = :task)
    + (select count(*) from duly_job indexed by duly_job_parked
        where state = 'waiting' and is_parked = 1 and queue = :queue and task = :task)

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
