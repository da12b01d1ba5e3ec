-- sweep: hand over what is due, each by one sweeper, and none while a claim on it is valid.

-- name: tidy
-- What was completed needs no delivery any more.
delete from {schema}.delivery where id in (
    select d.id from {schema}.delivery d left join {schema}.receipt r on r.id = d.id
    where d.next_at <= {clock} and (r.id is null or r.state = 'completed')
    order by d.next_at, d.id limit %(limit)s
    for update of d skip locked)
returning 1

-- name: due
select d.id, d.next_at, d.hand_overs, r.name, r.payload, r.epoch,
    greatest(case when d.mark = r.mark then d.until - {clock} end, 0)
from {schema}.delivery d join {schema}.receipt r on r.id = d.id
where d.next_at <= {clock} and (d.next_at, d.id) > (%(after)s, %(after_id)s) and r.state = 'pending'
order by d.next_at, d.id limit %(limit)s

-- name: reserve
-- Of several sweepers that saw it due, one changes the time they saw.
update {schema}.delivery set next_at = {clock} + %(wait)s
where id = %(id)s and next_at = %(seen)s
returning next_at

-- name: reserve_first
update {schema}.delivery set next_at = {clock} + %(wait)s
where id = %(id)s and hand_overs = 0 and mark is null and next_at is not null
returning next_at

-- name: handed_over
-- The time is left alone if a worker was quick and claimed the receipt meanwhile.
update {schema}.delivery
set hand_overs = hand_overs + 1, handed_over_at = {clock},
    next_at = case when next_at = %(reserved)s then {clock} + %(wait)s else next_at end
where id = %(id)s

-- name: exhaust
update {schema}.receipt set state = 'exhausted'
where id = (
    select id from {schema}.receipt
    where id = %(id)s and epoch = %(epoch)s and state = 'pending'
    for update skip locked)
returning 1

-- name: rest
update {schema}.delivery set next_at = null where id = %(id)s and next_at = %(seen)s

-- name: retry
update {schema}.receipt set state = 'pending' where id = %(id)s and state = 'exhausted' returning 1

-- name: hand_over_anew
insert into {schema}.delivery (id, next_at) values (%(id)s, {clock})
on conflict (id) do update set next_at = excluded.next_at, hand_overs = 0
