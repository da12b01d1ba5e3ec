-- swift: put one request that meets nobody, in two statements.
-- Single requests are the ones a user waits for: the looks of other writes are taken along with the first of the two.

-- name: draw
-- Advance the counter; the oldest code that the schema serves, the notice, and whether the intake waits.
update duly_counter set value = value + 1 where name = 'number'
returning value, (select max(oldest_code) from duly_schema), exists (select 1 from duly_house),
    exists (select 1 from duly_intake indexed by duly_intake_unread where set_aside < :format)

-- name: insert
-- Nothing comes back for a request that was stored before.
insert into duly_job (generation, entered, id, arguments, task, queue, rank, ready_at, due, created_at, key,
    serial, per_key, overlap, delivery, perpetual, keep_done, keep_failed, expires_at, expires_after,
    tick, context)
values (:generation, :generation, :id, :arguments, :task, :queue, :rank, :due, :due, :created_at, :key, :serial,
    :per_key, :overlap, :delivery, :perpetual, :keep_done, :keep_failed, :expires_at, :expires_after,
    :tick, :context)
on conflict (id) do nothing
returning generation

-- name: give_back
update duly_counter set value = value - 1 where name = 'number'
