-- finish: end one run that is simply done, as the last words of the transaction of its effects.
-- One statement instead of the five of settle; whatever needs a decision changes nothing here and is settled there.

-- name: finish
-- By the number of its row, which spares a look at the index of ids; who does not know it has it looked up.
-- Fence, notice and intake are looked at where the row is written: nobody can come in between.
update duly_job
set state = 'done', reason = '', finished_at = :now, event = 'done', started_at = :started_at,
    forget_at = :now + keep_done, error = null, error_folded = null, fingerprint = null, failed_at = null,
    result = :result, result_until = :now + :kept_for, spare = substr(spare, 26)
where generation = coalesce(:generation, (select generation from duly_job where id = :id)) and +id = :id
    and state = 'running' and epoch = :epoch and nonce = :nonce
    and superseded_by is null and wish is null
    and (serial is null or not exists (
        select 1 from duly_job as other indexed by duly_job_serial
        where other.serial = duly_job.serial and other.state in ('waiting', 'running')
            and other.state = 'waiting'))
    and not exists (select 1 from duly_house)
    and not exists (select 1 from duly_intake indexed by duly_intake_unread where set_aside < :format)
