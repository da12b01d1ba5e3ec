-- claim: at most one valid claim per receipt. It holds no lock once this has committed.

-- name: make
insert into duly_receipt (id, name, payload, state, epoch, created_at)
values (:id, :name, null, 'pending', 0, :now)
on conflict (id) do nothing

-- name: take
-- The epoch was seen together with a lease that is over: it differs if anybody claimed since.
-- `payload is not null` would be true for every row here: SQLite 3.40 takes the columns of a strict table for
-- not null in a returning clause.
update duly_receipt set state = 'pending', epoch = epoch + 1, mark = :mark
where id = :id and epoch = :epoch and state in ('pending', 'exhausted')
returning epoch, typeof(payload) <> 'null'

-- name: lease
insert into duly_delivery (id, mark, until, boot_id, next_at)
values (:id, :mark, :boot + :lease, :boot_id, case when :is_issued then :now + :lease end)
on conflict (id) do update
set mark = excluded.mark, until = excluded.until, boot_id = excluded.boot_id, next_at = excluded.next_at
