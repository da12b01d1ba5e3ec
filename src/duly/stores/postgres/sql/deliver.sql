-- deliver: what relays bring from an outbox, each request once, and per serial never an older after a newer.
-- The caller holds the serials, so that of two relays one sees what the other brought.

-- name: remember
-- Answers the ids that are new; of two relays with one id the second waits for the first.
insert into {schema}.delivered (id, until)
select id, %(until)s from unnest(%(ids)s::text[]) as brought (id) order by id
on conflict (id) do nothing
returning id

-- name: unremember
-- What came too late may come again, in its order.
delete from {schema}.delivered where id = any (%(ids)s::text[])

-- name: last
select serial::text, number from {schema}.number
where outbox = %(outbox)s and serial = any (%(serials)s::uuid[])

-- name: number
insert into {schema}.number (outbox, serial, number, until)
select %(outbox)s, serial, number, %(until)s
from unnest(%(serials)s::uuid[], %(numbers)s::int8[]) as brought (serial, number)
on conflict (outbox, serial) do update set number = excluded.number, until = excluded.until

-- name: forget
delete from {schema}.delivered
where id in (select id from {schema}.delivered where until <= %(now)s limit %(limit)s for update skip locked)

-- name: forget_numbers
delete from {schema}.number
where (outbox, serial) in (
    select outbox, serial from {schema}.number where until <= %(now)s limit %(limit)s for update skip locked)
