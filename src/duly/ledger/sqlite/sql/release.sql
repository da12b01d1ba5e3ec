-- release: a claim is given back undone. Waits for a commit under way, so that afterwards it is certain
-- whether there was one. A receipt that a delivery made vanishes with its claim, if that was
-- the first: after others its epoch must go on rising, for systems outside that compare it.

-- name: unmake
delete from duly_receipt
where id = :id and epoch = :epoch and mark = :mark and state = 'pending' and payload is null
    and epoch = 1
returning 1

-- name: release
update duly_receipt set mark = null
where id = :id and epoch = :epoch and mark = :mark and state in ('pending', 'exhausted')
returning 1

-- name: forget
delete from duly_delivery where id = :id and mark = :mark

-- name: await_hand_over
update duly_delivery set mark = null, until = null, next_at = case when next_at is not null then :now + :wait end
where id = :id and mark = :mark
