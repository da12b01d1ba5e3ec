-- recover: what dead workers held becomes ready again, and what nobody wants any more is skipped.
-- Both are part of a claim, where `look` finds them without walking over jobs that are neither.

-- name: borrowed
select generation from duly_job indexed by duly_job_running
where state = 'running' and worker in (select value from json_each(:workers))
order by entered

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
