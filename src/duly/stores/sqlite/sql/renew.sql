-- renew, begin, report, disown: what a worker says about claims it still holds, or never received.

-- name: beat
-- One small row per worker extends every lease it holds.
insert into duly_worker (id, name, host, pid, started_at, queues, tasks, slots, version, lease_until, boot_id, seen_at)
values (:id, :name, :host, :pid, :started_at, :queues, :tasks, :slots, :version, :lease_until, :boot_id, :now)
on conflict (id) do update
set name = excluded.name, host = excluded.host, pid = excluded.pid, started_at = excluded.started_at,
    queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots, version = excluded.version,
    lease_until = excluded.lease_until, boot_id = excluded.boot_id, seen_at = excluded.seen_at

-- name: changed
-- Which of the claims [[id, epoch, nonce], ...] are lost, wished to stop or superseded.
select claim.key, job.id is null, job.wish
from json_each(:claims) as claim left join duly_job as job
    on job.id = claim.value ->> 0 and job.state = 'running' and job.epoch = claim.value ->> 1
        and job.nonce = claim.value ->> 2
where job.id is null or job.wish in ('cancel', 'delete') or job.superseded_by is not null

-- name: begin
-- Bodies are marked as started before they start; those not answered must not start.
-- The task may have become at_most_once after the request: what counts is how the body starts.
update duly_job
set has_begun = 1, began_isolated = :isolated, delivery = iif(:once, 'at_most_once', delivery)
from json_each(:claims) as claim
where duly_job.id = claim.value ->> 0 and duly_job.state = 'running' and duly_job.epoch = claim.value ->> 1
    and duly_job.nonce = claim.value ->> 2 and duly_job.superseded_by is null
    and ifnull(duly_job.wish, '') not in ('cancel', 'delete')
returning id, epoch, nonce

-- name: report
update duly_job set progress = :progress
where id = :id and state = 'running' and epoch = :epoch and nonce = :nonce

-- name: borrowed
select id, epoch, nonce from duly_job indexed by duly_job_running
where state = 'running' and worker = :worker
order by entered
