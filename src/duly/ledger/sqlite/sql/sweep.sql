-- sweep: hand over what is due, each by one sweeper, and none while a claim on it is valid.

-- name: tidy
-- What was completed needs no delivery any more.
delete from duly_delivery where id in (
    select d.id from duly_delivery d left join duly_receipt r on r.id = d.id
    where d.next_at <= :now and (r.id is null or r.state = 'completed')
    order by d.next_at, d.id limit :limit)
returning 1

-- name: due
select d.id, d.next_at, d.hand_overs, r.name, r.payload, r.epoch,
    max(coalesce(case when d.mark = r.mark and d.boot_id = :boot_id then d.until - :boot end, 0), 0)
from duly_delivery d join duly_receipt r on r.id = d.id
where d.next_at <= :now and (d.next_at, d.id) > (:after, :after_id) and r.state = 'pending'
order by d.next_at, d.id limit :limit

-- name: reserve
-- Of several sweepers that saw it due, one changes the time they saw.
update duly_delivery set next_at = :now + :wait
where id = :id and next_at = :seen
returning next_at

-- name: reserve_first
update duly_delivery set next_at = :now + :wait
where id = :id and hand_overs = 0 and mark is null and next_at is not null
returning next_at

-- name: handed_over
-- The time is left alone if a worker was quick and claimed the receipt meanwhile.
update duly_delivery
set hand_overs = hand_overs + 1, handed_over_at = :now,
    next_at = case when next_at = :reserved then :now + :wait else next_at end
where id = :id

-- name: exhaust
update duly_receipt set state = 'exhausted'
where id = :id and epoch = :epoch and state = 'pending'
returning 1

-- name: rest
update duly_delivery set next_at = null where id = :id and next_at = :seen

-- name: retry
update duly_receipt set state = 'pending' where id = :id and state = 'exhausted' returning 1

-- name: hand_over_anew
insert into duly_delivery (id, next_at) values (:id, :now)
on conflict (id) do update set next_at = excluded.next_at, hand_overs = 0
