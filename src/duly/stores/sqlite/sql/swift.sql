-- swift: put one request that meets nobody, in one statement.
-- Single requests are the ones a user waits for, and every page that a commit changes is written to the log: so the
-- looks of other writes are conditions here, and the counter is left as it is, since the row itself tells its number.

-- name: insert
-- One that was stored before is ignored; so is any where things are not as they mostly are, since `entered` is null
-- then. Values, not a selection: that would gather its rows aside first, which takes half as long again.
insert or ignore into duly_job (id, arguments, created_at, ready_at, due, expires_at, generation, entered, task, queue,
    rank, key, serial, per_key, overlap, delivery, perpetual, keep_done, keep_failed, expires_after, tick, context)
values (:id, :arguments, :created_at, :due, :due, :expires_at,
    1 + max((select value from duly_counter where name = 'number'), coalesce((select max(generation) from duly_job), 0)),
    iif((:level is null or (select max(oldest_code) from duly_schema) <= :level)
            and not exists (select 1 from duly_house)
            and not exists (select 1 from duly_intake indexed by duly_intake_unread where set_aside < :format),
        1 + max((select value from duly_counter where name = 'number'), coalesce((select max(generation) from duly_job), 0)),
        null),
    :task, :queue, :rank, :key, :serial, :per_key, :overlap, :delivery, :perpetual, :keep_done, :keep_failed,
    :expires_after, :tick, :context)
