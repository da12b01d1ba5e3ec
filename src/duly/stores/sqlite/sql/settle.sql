-- settle: per claim all or nothing: verdict, history line and follow-up requests, under the fence.
-- Runs that are simply done end together; whatever needs a decision is settled one by one.

-- name: finish_done
-- Ends every claim that holds and needs no decision: nobody wished anything of it, and nobody waits for it to end.
-- Claims come by what they have in common, [[epoch, nonce, {id: started_at, ...}], ...]: a list for each of them
-- took half as long again to read. Only with a result it is one, [started_at, result, how long].
update duly_job
set state = 'done', reason = '', finished_at = :now, event = 'done',
    started_at = iif(claim.has_result, claim.value ->> 0, claim.value), forget_at = :now + keep_done, error = null,
    error_folded = null, fingerprint = null, failed_at = null,
    result = iif(claim.has_result, claim.value ->> 1, null),
    result_until = iif(claim.has_result, :now + (claim.value ->> 2), null)
from (
    select loan.epoch, loan.nonce, run.key as id, run.value, run.type = 'array' as has_result
    from (select value ->> 0 as epoch, value ->> 1 as nonce, value ->> 2 as ends from json_each(:loans) limit -1) as loan
    cross join json_each(loan.ends) as run limit -1) as claim
where duly_job.id = claim.id and duly_job.state = 'running' and duly_job.epoch = claim.epoch
    and duly_job.nonce = claim.nonce and duly_job.superseded_by is null and duly_job.wish is null
    and (duly_job.serial is null or :is_free and not exists (
        select 1 from duly_job as other indexed by duly_job_serial
        where other.serial = duly_job.serial and other.state in ('waiting', 'running') and other.state = 'waiting'))

-- name: finished
select changes()

-- name: which_finished
select job.id
from (select value ->> 0 as epoch, value ->> 1 as nonce, value ->> 2 as ends from json_each(:loans) limit -1) as loan
cross join json_each(loan.ends) as run cross join duly_job as job on job.id = run.key
where job.state = 'done' and job.finished_at = :now and job.event = 'done' and job.epoch = loan.epoch
    and job.nonce = loan.nonce

-- name: queued
-- The newest request that waits for a serial and a key.
select id from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and key is :key
order by generation desc
limit 1
