-- recover: what dead workers held becomes ready again, and what nobody wants any more is skipped.
-- Both are part of a claim, and found without walking over jobs that are neither.

-- name: borrowers
-- Every worker with a job on loan, leaping from one to the next; its lease counts in this boot only.
with recursive borrower (worker) as (
    select (select worker from duly_job indexed by duly_job_running where state = 'running' order by worker limit 1)
    union all
    select (
        select worker from duly_job indexed by duly_job_running
        where state = 'running' and worker > borrower.worker order by worker limit 1)
    from borrower
    where borrower.worker is not null
)
select borrower.worker, worker.host, iif(worker.boot_id = :boot_id, worker.lease_until, null)
from borrower left join duly_worker as worker on worker.id = borrower.worker
where borrower.worker is not null

-- name: borrowed
select generation from duly_job indexed by duly_job_running
where state = 'running' and worker in (select value from json_each(:workers))
order by entered

-- name: late_lanes
with recursive lane (queue, task, expires_at) as (
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
select queue, task from lane where expires_at <= :now

-- name: late
select generation, entered from duly_job indexed by duly_job_expiry
where state = 'waiting' and queue = :queue and task = :task and expires_at <= :now and serial is not null

-- name: expire_free
-- Nothing can stand behind a job without a serial, so these go together.
update duly_job
set state = 'skipped', reason = 'expired', finished_at = :now, forget_at = :now + keep_done, is_parked = 0
where generation in (
    select generation from duly_job indexed by duly_job_expiry
    where state = 'waiting' and queue = :queue and task = :task and expires_at <= :now and serial is null)
