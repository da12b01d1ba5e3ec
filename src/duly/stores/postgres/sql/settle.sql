-- settle: per claim all or nothing: verdict, history line and follow-up requests, under the fence.
-- Runs of which nobody spoke, and behind which nobody waits, are settled together; the others one by one.
-- A lock is waited for as long as a request takes; what is held longer is a user's, and answered BUSY.

-- name: busy
-- Loans that somebody else holds at the moment.
select running.generation from {schema}.running
where running.generation = any (%(generations)s::int8[])
    and running.generation not in (
        select held.generation from {schema}.running as held
        where held.generation = any (%(generations)s::int8[])
        for update skip locked)

-- name: hold
select generation from {schema}.running
where generation = any (%(generations)s::int8[])
order by generation
for update

-- name: try_hold
select generation from {schema}.running
where generation = any (%(generations)s::int8[])
order by generation
for update skip locked

-- name: waited_for
-- Serials behind which something waits.
select standing.serial::text from {schema}.standing
where standing.serial = any (%(serials)s::uuid[])
    and not exists (select 1 from {schema}.running where running.generation = standing.generation offset 0)

-- name: names
-- Under which task and key jobs were asked for.
select wanted.generation, job.lane, job.key
from unnest(%(generations)s::int8[]) as wanted (generation)
cross join lateral (
    select lane, key from {schema}.job where job.generation = wanted.generation offset 0) as job

-- name: spoken_of
select 1 from {schema}.notice where generation = any (%(generations)s::int8[]) limit 1

-- name: end_bare
-- Done, with nothing to keep: the row of the end is the last line of the history too.
with given as materialized (
    select *
    from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[], %(started)s::int8[])
        as given (generation, epoch, seed, started_at)
), held as materialized (
    select given.started_at, running.*
    from given
    cross join lateral (
        select ctid as place, running.* from {schema}.running
        where running.generation = given.generation offset 0) as running
    where running.epoch = given.epoch and running.seed = given.seed
        and (running.serial is null or running.serial = any (%(quiet)s::uuid[]))
        and not exists (select 1 from {schema}.notice where notice.generation = given.generation offset 0)
), gone as (
    delete from {schema}.running using held where running.ctid = held.place returning held.*
), stood as (
    delete from {schema}.standing
    where ctid = any (array(
        select standing.place
        from gone
        cross join lateral (
            select ctid as place from {schema}.standing
            where standing.serial = gone.serial and standing.generation = gone.generation offset 0) as standing
        where gone.serial is not null))
), ended as (
    insert into {schema}.ended (generation, finished_at, forget_at, seed, started_at, lane, epoch, worker, state,
        event)
    select generation, %(now)s::int8, %(now)s::int8 + keep_done, seed, started_at, lane, epoch, worker, 'done',
        'done'
    from gone
)
select generation from gone

-- name: end_swiftly
-- All of them done, with nothing to keep and no serial, or (by a division by zero) nothing at all: when one was
-- lost, or the store is being moved. Whether somebody spoke of them is asked by the next statement.
-- What all have in common is given once. A full join cannot be done by comparing each with each.
with gone as (
    delete from {schema}.running
    where generation = any (%(generations)s::int8[]) and serial is null
    returning generation, epoch, seed, keep_done, lane, worker
), given as materialized (
    select generation, started_at, coalesce(epoch, (%(epochs)s::int4[])[1]) as epoch,
        coalesce(seed, (%(seeds)s::int8[])[1]) as seed
    from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[], %(started)s::int8[])
        as given (generation, epoch, seed, started_at)
), met as materialized (
    select gone.*, given.started_at, gone.epoch = given.epoch and gone.seed = given.seed as is_ours
    from gone full join given on gone.generation = given.generation
), moment as materialized (
    select coalesce(%(now)s::int8, {beginning}) as now
), ended as (
    insert into {schema}.ended (generation, finished_at, forget_at, seed, started_at, lane, epoch, worker, state,
        event)
    select generation, now, now + keep_done, seed, started_at, lane, epoch, worker, 'done', 'done'
    from met cross join moment
    where is_ours
)
select 1 / (
    coalesce(bool_and(coalesce(is_ours, false)), true)
    and not exists (select 1 from {schema}.house)
    and not exists (select 1 from {schema}.migration where oldest_code > %(level)s::int4))::int4
from met

-- name: end
with given as materialized (
    select *
    from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[], %(started)s::int8[],
        %(events)s::text[], %(states)s::text[], %(reasons)s::text[], %(errors)s::text[], %(fingerprints)s::text[],
        %(results)s::text[], %(result_until)s::int8[])
        as given (generation, epoch, seed, started_at, event, state, reason, error, fingerprint, result,
            result_until)
), held as materialized (
    select given.*, running.place, running.lane, running.worker, running.serial
    from given
    cross join lateral (
        select ctid as place, running.* from {schema}.running
        where running.generation = given.generation offset 0) as running
    where running.epoch = given.epoch and running.seed = given.seed
        and (running.serial is null or running.serial = any (%(quiet)s::uuid[]))
        and not exists (select 1 from {schema}.notice where notice.generation = given.generation offset 0)
), gone as (
    delete from {schema}.running using held where running.ctid = held.place returning held.*
), stood as (
    delete from {schema}.standing
    where ctid = any (array(
        select standing.place
        from gone
        cross join lateral (
            select ctid as place from {schema}.standing
            where standing.serial = gone.serial and standing.generation = gone.generation offset 0) as standing
        where gone.serial is not null))
), ended as (
    insert into {schema}.ended (generation, finished_at, forget_at, seed, started_at, result_until, lane, epoch,
        worker, state, event, reason, result, error, fingerprint, failed_at)
    select gone.generation, %(now)s::int8,
        %(now)s::int8 + case when gone.state = 'failed' then job.keep_failed else job.keep_done end,
        gone.seed, gone.started_at, gone.result_until, gone.lane, gone.epoch, gone.worker, gone.state, gone.event,
        gone.reason, gone.result, case when gone.event <> 'done' then coalesce(gone.error, job.error) end,
        case when gone.event <> 'done' then coalesce(gone.fingerprint, job.fingerprint) end,
        case when gone.event <> 'done' then case when gone.error is null then job.failed_at else %(now)s::int8 end end
    from gone
    cross join lateral (
        select * from {schema}.job where job.generation = gone.generation offset 0) as job
)
select generation from gone

-- name: go_on
-- The same job waits for another run. An at-most-once body that had begun is not among them.
with given as materialized (
    select *
    from unnest(%(generations)s::int8[], %(epochs)s::int4[], %(seeds)s::int8[], %(started)s::int8[],
        %(events)s::text[], %(notes)s::text[], %(ready)s::int8[], %(errors)s::text[], %(fingerprints)s::text[],
        %(arguments)s::text[])
        as given (generation, epoch, seed, started_at, event, note, ready_at, error, fingerprint, arguments)
), held as materialized (
    select given.*, running.place, running.worker
    from given
    cross join lateral (
        select ctid as place, running.* from {schema}.running
        where running.generation = given.generation offset 0) as running
    where running.epoch = given.epoch and running.seed = given.seed
        and (running.serial is null or running.serial = any (%(quiet)s::uuid[]))
        and not exists (select 1 from {schema}.notice where notice.generation = given.generation offset 0)
        and not exists (select 1 from {schema}.remark where remark.generation = given.generation offset 0)
), gone as (
    delete from {schema}.running using held where running.ctid = held.place returning held.*
), left_behind as materialized (
    select gone.*, job.entered, job.attempt
    from gone
    cross join lateral (
        select entered, attempt from {schema}.job where job.generation = gone.generation offset 0) as job
), lines as (
    insert into {schema}.history (entered, at, event, epoch, generation, attempt, worker, started_at, note)
    select left_behind.entered, %(now)s::int8, left_behind.event, left_behind.epoch, left_behind.generation,
        left_behind.attempt, worker.id, left_behind.started_at, left_behind.note
    from left_behind join {schema}.worker on worker.number = left_behind.worker
), trimmed as (
    -- A job that starts another cycle keeps its newest lines; the one just written is not seen here.
    delete from {schema}.history using (
        select left_behind.entered,
            (select number from {schema}.history
                where history.entered = left_behind.entered
                order by number desc offset %(lines)s - 1 limit 1) as number
        from left_behind
        where left_behind.event = 'again') as oldest
    where history.entered = oldest.entered and history.number <= oldest.number
), waiting as (
    update {schema}.job
    set ready_at = gone.ready_at,
        epoch = gone.epoch,
        error = coalesce(gone.error, job.error),
        fingerprint = coalesce(gone.fingerprint, job.fingerprint),
        failed_at = case when gone.error is null then job.failed_at else %(now)s::int8 end,
        attempt = case gone.event when 'again' then 0 when 'retry' then job.attempt + 1 else job.attempt end,
        deferrals = case gone.event when 'again' then 0 when 'defer' then job.deferrals + 1 else job.deferrals end,
        crashes = case gone.event when 'again' then 0 else job.crashes end,
        cycle = case gone.event when 'again' then job.cycle + 1 else job.cycle end,
        due = case gone.event when 'again' then gone.ready_at else job.due end,
        expires_at = case gone.event when 'again' then gone.ready_at + job.expires_after else job.expires_at end,
        first_failure = case gone.event when 'again' then null
            when 'retry' then coalesce(job.first_failure, %(now)s::int8) else job.first_failure end,
        is_suspect = case gone.event when 'again' then false else job.is_suspect end,
        arguments = case gone.event when 'again' then coalesce(gone.arguments, job.arguments) else job.arguments end
    from left_behind as gone
    where job.generation = gone.generation
    returning job.lane, job.serial, job.ready_at, job.generation, job.expires_at
), lined_up as (
    insert into {schema}.ready (lane, has_serial, ready_at, generation)
    select lane, serial is not null, ready_at, generation from waiting
), expiring as (
    insert into {schema}.expiry (lane, expires_at, generation)
    select lane, expires_at, generation from waiting where expires_at is not null
    on conflict do nothing
)
select generation from gone
