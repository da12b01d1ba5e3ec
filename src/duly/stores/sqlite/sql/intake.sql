-- intake: requests made inside somebody's own transaction, in the order of their commit.
-- Appending never waits for another key; the engine places them afterwards, under its own lock.

-- name: append
insert into duly_intake (id, key, offered_at, request)
values (:id, :key, :offered_at, :request)
on conflict (id) do nothing

-- name: pending
select offered_at, request from duly_intake order by number

-- name: clear
delete from duly_intake

-- name: pending_of
select offered_at, request
from duly_intake
where id in (select value from json_each(:ids)) or key = :key
order by number desc
