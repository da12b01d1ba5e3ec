-- release: a claim is given back undone. Waits for a commit under way, so that afterwards it is certain
-- whether there was one. A receipt that a delivery made vanishes with its claim.

-- name: unmake
delete from duly_receipt
where id = :id and epoch = :epoch and mark = :mark and state = 'pending' and payload is null
returning 1

-- name: release
update duly_receipt set mark = null
where id = :id and epoch = :epoch and mark = :mark and state = 'pending'
returning 1

-- name: forget
delete from duly_delivery where id = :id and mark = :mark

-- name: await_hand_over
update duly_delivery set mark = null, until = null, next_at = :now + :wait
where id = :id and mark = :mark
