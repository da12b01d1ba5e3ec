-- intake: requests made inside somebody's own transaction, in the order in which they were made.
-- Appending meets no lock and no unique index of another user; the engine places them afterwards.

-- name: append
insert into {schema}.intake (id, key, offered_at, request)
select id, key, offered_at, request
from unnest(%(ids)s::text[], %(keys)s::text[], %(offered)s::int8[], %(requests)s::text[])
    as line (id, key, offered_at, request)

-- name: pending
select number, offered_at, request from {schema}.intake order by number limit %(limit)s

-- name: alone
-- Whether nobody else is placing requests of this schema; kept until the transaction ends.
select pg_try_advisory_xact_lock(hashtextextended('duly intake', tableoid::int8)) from {schema}.intake limit 1

-- name: clear
delete from {schema}.intake where number = any (%(numbers)s::int8[])

-- name: pending_of
select offered_at, request from {schema}.intake
where id = any (%(ids)s::text[]) or key = %(key)s
order by number desc
