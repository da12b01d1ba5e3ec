-- release: a claim is given back undone. Waits for a commit under way, so that afterwards it is certain
-- whether there was one. A receipt that a delivery made vanishes with its claim, if that was
-- the first: after others its epoch must go on rising, for systems outside that compare it.

-- name: unmake
delete from {schema}.receipt
where id = %(id)s and epoch = %(epoch)s and mark = %(mark)s and state = 'pending' and payload is null
    and epoch = 1
returning 1

-- name: release
update {schema}.receipt set mark = null
where id = %(id)s and epoch = %(epoch)s and mark = %(mark)s and state in ('pending', 'exhausted')
returning 1

-- name: forget
delete from {schema}.delivery where id = %(id)s and mark = %(mark)s

-- name: await_hand_over
update {schema}.delivery set mark = null, until = null, next_at = case when next_at is not null then {clock} + %(wait)s end
where id = %(id)s and mark = %(mark)s
