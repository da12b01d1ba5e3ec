-- row: one job, gathered from the tables it stands in, changed by a decision made outside the database, and
-- put where it now belongs. The caller holds its serial, or the row that says where it stands.

-- name: load
select job.generation, job.id, job.entered, job.lane, job.ready_at, job.due, job.created_at, job.expires_at,
    job.expires_after, job.tick, job.first_failure, job.keep_done, job.keep_failed, job.serial::text,
    coalesce(ended.epoch, running.epoch, job.epoch), job.attempt, job.crashes, job.deferrals, job.cycle,
    job.per_key, job.overlap, job.delivery, job.perpetual, job.is_suspect, job.key, job.chain, job.context,
    job.arguments, case when ended.generation is null then job.error else ended.error end,
    case when ended.generation is null then job.fingerprint else ended.fingerprint end,
    case when ended.generation is null then job.failed_at else ended.failed_at end,
    coalesce(ended.state, case when running.generation is null then 'waiting' else 'running' end),
    parked.generation is not null, coalesce(ended.seed, running.seed), coalesce(worker.id, ''),
    worker.number, worker.lease_until, coalesce(worker.has_left, true), worker.host,
    remark.has_begun and remark.epoch = running.epoch, remark.began_isolated and remark.epoch = running.epoch,
    case when remark.epoch = coalesce(ended.epoch, running.epoch, job.epoch) then remark.progress end,
    coalesce(ended.superseded_by, notice.superseded_by), coalesce(ended.wish, notice.wish), ended.finished_at,
    ended.forget_at, ended.result_until, coalesce(ended.reason, ''), ended.result, ended.event, ended.started_at
from {schema}.job
left join {schema}.running on running.generation = job.generation
left join {schema}.ended on ended.generation = job.generation
left join {schema}.parked on parked.generation = job.generation
left join {schema}.remark on remark.generation = job.generation
left join {schema}.notice on notice.generation = job.generation
    and notice.epoch = coalesce(running.epoch, job.epoch)
left join {schema}.worker on worker.number = coalesce(running.worker, ended.worker)
where job.generation = any (%(generations)s::int8[])

-- name: named
select generation from {schema}.job where id = %(id)s

-- name: peers
-- Live jobs of one serial, oldest request first.
select standing.generation, job.id, job.key, running.generation is not null, parked.generation is not null,
    job.per_key, job.overlap, job.lane, job.ready_at
from {schema}.standing
join {schema}.job on job.generation = standing.generation
left join {schema}.running on running.generation = standing.generation
left join {schema}.parked on parked.generation = standing.generation
where standing.serial = %(serial)s::uuid
order by standing.generation

-- name: leave_ready
delete from {schema}.ready
where lane = %(lane)s and ready_at = %(ready_at)s and generation = %(generation)s

-- name: leave_parked
delete from {schema}.parked where generation = %(generation)s

-- name: leave_running
delete from {schema}.running where generation = %(generation)s

-- name: leave_ended
delete from {schema}.ended where generation = %(generation)s

-- name: enter_ready
insert into {schema}.ready (lane, has_serial, ready_at, generation)
values (%(lane)s, %(has_serial)s, %(ready_at)s, %(generation)s)

-- name: enter_parked
insert into {schema}.parked (lane, ready_at, generation) values (%(lane)s, %(ready_at)s, %(generation)s)

-- name: enter_ended
insert into {schema}.ended (generation, finished_at, forget_at, seed, result_until, lane, epoch, worker, state,
    reason, result, error, fingerprint, failed_at, superseded_by, wish)
values (%(generation)s, %(finished_at)s, %(forget_at)s, %(seed)s, %(result_until)s, %(lane)s, %(epoch)s,
    %(worker_number)s, %(state)s, %(reason)s, %(result)s, %(error)s, %(fingerprint)s,
    %(failed_at)s, %(superseded_by)s, %(wish)s)

-- name: save
-- The columns of the wide row that may change. Its error is the one of a job that has not ended.
update {schema}.job
set lane = %(lane)s, ready_at = %(ready_at)s, due = %(due)s, expires_at = %(expires_at)s,
    expires_after = %(expires_after)s, first_failure = %(first_failure)s, epoch = %(epoch)s, attempt = %(attempt)s, crashes = %(crashes)s,
    deferrals = %(deferrals)s, cycle = %(cycle)s, is_suspect = %(is_suspect)s, context = %(context)s,
    arguments = %(arguments)s, error = %(error)s, fingerprint = %(fingerprint)s, failed_at = %(failed_at)s
where generation = %(generation)s

-- name: renumber
update {schema}.job set generation = %(next)s where generation = %(generation)s

-- name: renumber_remark
update {schema}.remark set generation = %(next)s where generation = %(generation)s

-- name: stand
insert into {schema}.standing (serial, generation) values (%(serial)s::uuid, %(generation)s)
on conflict do nothing

-- name: stand_down
delete from {schema}.standing where serial = %(serial)s::uuid and generation = %(generation)s

-- name: expire_at
insert into {schema}.expiry (lane, expires_at, generation)
values (%(lane)s, %(expires_at)s, %(generation)s)
on conflict do nothing

-- name: expire_never
delete from {schema}.expiry
where lane = %(lane)s and expires_at = %(expires_at)s and generation = %(generation)s

-- name: tell
insert into {schema}.notice (generation, epoch, superseded_by, wish)
values (%(generation)s, %(epoch)s, %(superseded_by)s, %(wish)s)
on conflict (generation) do update
set epoch = excluded.epoch, superseded_by = excluded.superseded_by, wish = excluded.wish

-- name: disturb
-- A completion in a caller's transaction whose snapshot is older cannot see the notice, but it fails on this.
update {schema}.serial set digest = digest where digest = %(serial)s::uuid

-- name: untell
delete from {schema}.notice where generation = %(generation)s

-- name: unsay
update {schema}.remark set progress = null where generation = %(generation)s and progress is not null

-- name: unremark
delete from {schema}.remark where generation = %(generation)s

-- name: note
insert into {schema}.history (entered, at, event, epoch, generation, attempt, worker, started_at, note)
values (%(entered)s, %(at)s, %(event)s, %(epoch)s, %(generation)s, %(attempt)s, %(worker)s, %(started_at)s,
    %(note)s)

-- name: trim
delete from {schema}.history
where entered = %(entered)s and number <= (
    select number from {schema}.history where entered = %(entered)s order by number desc offset %(lines)s limit 1)

-- name: write_out
-- The row of an ended job is no longer the last line of its history.
update {schema}.ended set event = null where generation = %(generation)s

-- name: remove_job
delete from {schema}.job where generation = %(generation)s

-- name: remove_history
delete from {schema}.history where entered = %(entered)s

-- name: free
insert into {schema}.freed (serial) values (%(serial)s::uuid)

-- name: mark
insert into {schema}.marker (serial, at, name) values (%(serial)s::uuid, %(at)s, %(name)s)
on conflict (serial) do update set at = excluded.at

-- name: unmark
delete from {schema}.marker where serial = %(serial)s::uuid

-- name: draw
select nextval('{literal}.generation')

-- name: tally
insert into {schema}.tally (name, amount) values (%(name)s, %(amount)s)
