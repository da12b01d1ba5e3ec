-- settle: per claim all or nothing: verdict, history line and follow-up requests, under the fence.
-- Runs that are simply done end together; whatever needs a decision is settled one by one.

-- name: record_done
-- A line for every claim that holds and needs no decision: nobody wished anything of it, and nobody waits for it
-- to end. These lines say what `finish_done` ends. Claims come by what they have in common, [[epoch, nonce,
-- {id: started_at, ...}], ...]: a list for each of them took half as long again to read.
insert into duly_history (job, at, event, epoch, generation, attempt, worker, started_at, note)
select job.entered, :now, 'done', job.epoch, job.generation, job.attempt, job.worker, claim.value, ''
from (select value ->> 0 as epoch, value ->> 1 as nonce, value ->> 2 as ends from json_each(:loans) limit -1) as loan
cross join json_each(loan.ends) as claim cross join duly_job as job on job.id = claim.key
where job.state = 'running' and job.epoch = loan.epoch and job.nonce = loan.nonce
    and job.superseded_by is null and job.wish is null
    and (job.serial is null or :is_free and not exists (
        select 1 from duly_job as other indexed by duly_job_serial
        where other.serial = job.serial and other.state in ('waiting', 'running') and other.state = 'waiting'))

-- name: finish_done
-- Follows `record_done` at once: the lines that changed last are those it wrote.
update duly_job
set state = 'done', reason = '', finished_at = :now, forget_at = :now + keep_done, error = null,
    error_folded = null, fingerprint = null, failed_at = null, result = null, result_until = null
where generation in (select generation from duly_history order by number desc limit changes())

-- name: which_finished
select id from duly_job
where generation in (select generation from duly_history order by number desc limit :count)

-- name: keep_results
-- [[id, result, how long], ...], for those that were just finished.
update duly_job
set result = kept.value ->> 1, result_until = :now + (kept.value ->> 2)
from json_each(:results) as kept
where duly_job.id = kept.value ->> 0
    and duly_job.generation in (select generation from duly_history order by number desc limit :count)

-- name: queued
-- The newest request that waits for a serial and a key.
select id from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and key is :key
order by generation desc
limit 1
