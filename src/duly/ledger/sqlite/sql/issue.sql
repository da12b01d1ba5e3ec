-- issue: a pending receipt, once per id, in whatever transaction this runs. The sweep hands it over after
-- :wait unless somebody did so before.

-- name: issue
insert into duly_receipt (id, name, payload, state, epoch, created_at)
values (:id, :name, :payload, 'pending', 0, :now)
on conflict (id) do nothing
returning 1

-- name: await_hand_over
insert into duly_delivery (id, next_at) values (:id, :now + :wait)
on conflict (id) do update set next_at = excluded.next_at
