-- intake: requests made inside somebody's own transaction, in the order of their commit.
-- Appending never waits for another key; the engine places them afterwards, under its own lock.

-- name: append
insert into duly_intake (id, key, offered_at, request)
values (:id, :key, :offered_at, :request)
on conflict (id) do nothing

-- name: pending
-- What nobody who knows this format has tried to read.
select number, id, offered_at, request
from duly_intake indexed by duly_intake_unread
where set_aside < :format
order by number

-- name: set_aside
update duly_intake set set_aside = :format where number = :number

-- name: clear
delete from duly_intake where set_aside < :format

-- name: pending_of
select number, id, offered_at, request
from duly_intake
where id in (select value from json_each(:ids)) or key = :key
order by number desc
