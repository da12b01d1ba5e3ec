-- issue: a pending receipt, once per id, in whatever transaction this runs. The sweep hands it over after
-- :wait unless somebody did so before.

-- name: issue
insert into {schema}.receipt (id, name, payload, state, epoch, created_at)
values (%(id)s, %(name)s, %(payload)s, 'pending', 0, {clock})
on conflict (id) do nothing
returning 1

-- name: await_hand_over
insert into {schema}.delivery (id, next_at) values (%(id)s, {clock} + %(wait)s)
on conflict (id) do update set next_at = excluded.next_at
