-- prune: delete what finished long ago, oldest first, at most :limit jobs. Markers stay.

-- name: drop_results
update duly_job set result = null, result_until = null
where generation in (
    select generation from duly_job indexed by duly_job_result
    where result_until is not null and result_until <= :now)

-- name: old
select generation, entered from duly_job indexed by duly_job_forget
where forget_at is not null and forget_at <= :now
order by forget_at, entered
limit :limit

-- name: drop_history
delete from duly_history where job in (select value from json_each(:jobs))

-- name: drop_jobs
delete from duly_job where generation in (select value from json_each(:generations))

-- name: drop_windows
delete from duly_window where until <= :now

-- name: forget_locks
-- Locks that nobody let go; a restart of the machine ended those before it.
delete from duly_lock where boot_id <> :boot_id or until <= :boot

-- name: forget_switches
delete from duly_switch where until <= :since

-- name: forget_workers
-- Workers that died without a word, once nothing is left that they held.
delete from duly_worker
where seen_at <= :seen_before and (boot_id <> :boot_id or lease_until <= :boot)
    and not exists (
        select 1 from duly_job indexed by duly_job_running
        where state = 'running' and worker = duly_worker.id)
