-- outbox: requests kept in the user's database until a store has taken them.

-- name: append
-- No unique index, no row that another transaction holds: nobody waits.
insert into {schema}.slip (offered_at, serial, job, request)
select %(offered)s, serial, job, request
from unnest(%(serials)s::uuid[], %(jobs)s::text[], %(requests)s::text[]) as line (serial, job, request)

-- name: waits
select 1 from {schema}.slip where leased_until <= %(now)s and rests_until <= %(now)s limit 1

-- name: alone
-- The right to lend, kept until the transaction ends; no row where another relay has it.
select outbox, last from {schema}.counter for update skip locked

-- name: lend
-- The oldest that nobody has, none of a serial that somebody has. The numbers rise with the ids.
with free as materialized (
    select id from {schema}.slip
    where leased_until <= %(now)s and rests_until <= %(now)s
        and not exists (
            select 1 from {schema}.slip as held
            where held.serial = slip.serial and held.leased_until > %(now)s)
    order by id
    limit %(limit)s
    for update skip locked
), placed as (
    select id, row_number() over (order by id) as place from free
)
update {schema}.slip
set leased_until = %(until)s, number = case when reason is null then %(last)s + place else number end
from placed
where slip.id = placed.id
returning slip.id, slip.number, slip.job, slip.offered_at, slip.reason is not null, slip.request

-- name: count_on
update {schema}.counter set last = %(last)s

-- name: clear
delete from {schema}.slip
using unnest(%(ids)s::int8[], %(numbers)s::int8[]) as done (id, number)
where slip.id = done.id and slip.number = done.number
returning slip.id

-- name: release
update {schema}.slip set leased_until = 0
from unnest(%(ids)s::int8[], %(numbers)s::int8[]) as undone (id, number)
where slip.id = undone.id and slip.number = undone.number
returning slip.id

-- name: set_aside
update {schema}.slip set leased_until = 0, rests_until = %(until)s, reason = %(reason)s
where id = %(id)s and number = %(number)s
returning id

-- name: backlog
select count(*), min(offered_at), count(reason), max(reason) from {schema}.slip

-- name: find
select offered_at, request from {schema}.slip where job = %(job)s

-- name: withdraw
delete from {schema}.slip where job = %(job)s and number is null returning id
