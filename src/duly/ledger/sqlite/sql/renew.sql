-- renew: the claim with this mark lasts :lease from now; no row when another claim took over.

-- name: renew
update duly_delivery
set until = :boot + :lease, boot_id = :boot_id,
    next_at = case when next_at is not null then :now + :lease end
where id = :id and mark = :mark
returning 1
