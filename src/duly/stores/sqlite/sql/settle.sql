-- settle: per claim all or nothing: verdict, history line and follow-up requests, under the fence.
-- Runs that are simply done end together; whatever needs a decision is settled one by one.

-- name: finish_done
-- Ends the runs of one claim that began together, as far as they need no decision: the fence holds, nobody wished
-- anything of them, and nobody waits for them to end. The row tells the line of history. The plus keeps the index of
-- all runs out of it, which might seem the shorter way once the tables were counted. What the row gains, three times
-- and a word, is 25 bytes. A loan is named by the numbers of its rows: that spares a look at the index of ids, and the
-- fence tells whether they are still the same jobs.
update duly_job
set state = 'done', reason = '', finished_at = :now, event = 'done', started_at = :started_at,
    forget_at = :now + keep_done, error = null, error_folded = null, fingerprint = null, failed_at = null,
    result = null, result_until = null, spare = substr(spare, 26)
where generation in (select value from json_each(:ended)) and +state = 'running' and epoch = :epoch and nonce = :shown
    and superseded_by is null and wish is null
    and (serial is null or :is_free and not exists (
        select 1 from duly_job as other indexed by duly_job_serial
        where other.serial = duly_job.serial and other.state in ('waiting', 'running') and other.state = 'waiting'))

-- name: generations
-- Where jobs are, by their ids.
select json_group_object(id, generation) from duly_job where id in (select value from json_each(:ids))

-- name: finished
select changes()

-- name: which_finished
-- Of [[epoch, nonce, ..., [generation, ...]], ...], the jobs that ended under that very loan.
select job.id
from (
    select value ->> 0 as epoch, value ->> 1 as nonce, value ->> 4 as generations from json_each(:loans) limit -1
) as loan
cross join json_each(loan.generations) as claim cross join duly_job as job on job.generation = claim.value
where job.state = 'done' and job.epoch = loan.epoch and job.nonce = loan.nonce and job.superseded_by is null

-- name: keep_results
-- [[id, epoch, nonce, result, how long], ...], for those that were just finished. Their ids are asked for once more, or
-- a table that was analysed when it was nearly empty would be walked over.
update duly_job indexed by duly_job_id
set result = kept.value ->> 3, result_until = :now + (kept.value ->> 4)
from json_each(:results) as kept
where duly_job.id in (select value ->> 0 from json_each(:results))
    and duly_job.id = kept.value ->> 0 and duly_job.epoch = kept.value ->> 1 and duly_job.nonce = kept.value ->> 2
    and duly_job.state = 'done' and duly_job.finished_at = :now

-- name: queued
-- The newest request that waits for a serial and a key.
select id from duly_job indexed by duly_job_serial
where serial = :serial and state in ('waiting', 'running') and state = 'waiting' and key is :key
order by generation desc
limit 1
