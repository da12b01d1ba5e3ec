-- intake: requests made inside somebody's own transaction, in the order in which they were made.
-- Appending meets no lock and no unique index of another user; the engine places them afterwards.

-- name: append
insert into {schema}.intake (id, key, offered_at, request)
select id, key, offered_at, request
from unnest(%(ids)s::text[], %(keys)s::text[], %(offered)s::int8[], %(requests)s::text[])
    as line (id, key, offered_at, request)

-- name: alone
-- Whether nobody else is placing requests of this schema; kept until the transaction ends.
select pg_try_advisory_xact_lock(hashtextextended('duly intake', '{literal}.intake'::regclass::oid::int8))

-- name: pending
-- What nobody who knows this format has tried to read.
select number, id, offered_at, request from {schema}.intake
where set_aside < %(format)s
order by number
limit %(limit)s

-- name: set_aside
update {schema}.intake set set_aside = %(format)s where number = %(number)s

-- name: clear
delete from {schema}.intake where number = any (%(numbers)s::int8[]) and set_aside < %(format)s

-- name: pending_of
select number, id, offered_at, request from {schema}.intake
where id = any (%(ids)s::text[]) or key = %(key)s
order by number desc

-- name: freed
delete from {schema}.freed returning serial::text
