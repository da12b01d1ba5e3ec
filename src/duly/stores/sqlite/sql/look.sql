-- look: everything that a claim looks at before it lends, as one row of JSON texts.
-- One statement, because each gives up the interpreter and takes it again, for which a busy worker waits.
-- Lists are made by leaping through an index: a lane that is held, full or unknown to the worker costs one
-- seek, however many jobs wait in it. One subquery per column: a comparison of whole rows would start at the
-- equal ones and walk over them.

-- name: look
-- Whether the worker has a lease in force; every worker with a job on loan, whose lease counts in this boot only;
-- the lanes with a job that nobody wants any more; the switches in force; every (queue, task, rank) with something
-- unparked waiting in it, and the first ready_at there.
select
    exists (select 1 from duly_worker where id = :worker and boot_id = :boot_id and lease_until > :boot),
    (with recursive borrower (worker) as (
        select (select worker from duly_job indexed by duly_job_running where state = 'running' order by worker limit 1)
        union all
        select (
            select worker from duly_job indexed by duly_job_running
            where state = 'running' and worker > borrower.worker order by worker limit 1)
        from borrower
        where borrower.worker is not null
    )
    select json_group_array(json_array(
        borrower.worker, worker.host, iif(worker.boot_id = :boot_id, worker.lease_until, null)))
    from borrower left join duly_worker as worker on worker.id = borrower.worker
    where borrower.worker is not null),
    (with recursive lane (queue, task, expires_at) as (
        select * from (
            select queue, task, expires_at from duly_job indexed by duly_job_expiry
            where state = 'waiting' and expires_at is not null
            order by queue, task, expires_at limit 1)
        union all
        select job.queue, job.task, job.expires_at
        from lane cross join duly_job as job on job.generation = coalesce(
            (select generation from duly_job indexed by duly_job_expiry
                where state = 'waiting' and expires_at is not null and queue = lane.queue and task > lane.task
                order by task, expires_at limit 1),
            (select generation from duly_job indexed by duly_job_expiry
                where state = 'waiting' and expires_at is not null and queue > lane.queue
                order by queue, task, expires_at limit 1))
    )
    select json_group_array(json_array(queue, task)) from lane where expires_at <= :now),
    (select json_group_array(json_array(scope, name, until)) from duly_switch where until is null or until > :now),
    (with recursive lane (queue, task, rank, ready_at) as (
        select * from (
            select queue, task, rank, ready_at from duly_job indexed by duly_job_ready
            where state = 'waiting' and is_parked = 0
            order by queue, task, rank, ready_at limit 1)
        union all
        select job.queue, job.task, job.rank, job.ready_at
        from lane cross join duly_job as job on job.generation = coalesce(
            (select generation from duly_job indexed by duly_job_ready
                where state = 'waiting' and is_parked = 0
                    and queue = lane.queue and task = lane.task and rank > lane.rank
                order by rank, ready_at limit 1),
            (select generation from duly_job indexed by duly_job_ready
                where state = 'waiting' and is_parked = 0 and queue = lane.queue and task > lane.task
                order by task, rank, ready_at limit 1),
            (select generation from duly_job indexed by duly_job_ready
                where state = 'waiting' and is_parked = 0 and queue > lane.queue
                order by queue, task, rank, ready_at limit 1))
    )
    select json_group_array(json_array(queue, task, rank, ready_at)) from lane)
