-- find: receipts for people, by id.

-- name: find
select r.id, r.name, r.payload, r.state, r.epoch, r.mark, r.created_at, r.completed_at,
    coalesce(d.hand_overs, 0), d.handed_over_at, d.next_at,
    max(coalesce(case when d.mark = r.mark and d.boot_id = :boot_id then d.until - :boot end, 0), 0)
from duly_receipt r left join duly_delivery d on d.id = r.id
where r.state = :state and r.id > :after
order by r.id limit :limit

-- name: count
select state, count(*) from duly_receipt group by state
