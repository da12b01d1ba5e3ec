-- prune: what was completed :keep ago, a few at a time. What was issued and is not completed stays. What a
-- delivery made and nobody completed goes too: whoever delivers it again makes it again.

-- name: completed
delete from duly_receipt where id in (
    select id from duly_receipt
    where state = 'completed' and completed_at <= :now - :keep
    order by completed_at limit :limit)
returning id

-- name: made
delete from duly_receipt where id in (
    select r.id from duly_receipt r left join duly_delivery d on d.id = r.id
    where r.payload is null and r.state = 'pending' and r.created_at <= :now - :keep
        and not coalesce(d.boot_id = :boot_id and d.until > :boot, 0)
    order by r.created_at limit :limit)
returning id

-- name: deliveries
delete from duly_delivery where id in (select value from json_each(:ids))
