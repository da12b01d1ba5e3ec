-- release: a claim is given back undone. Waits for a commit under way, so that afterwards it is certain
-- whether there was one. A receipt that a delivery made vanishes with its claim.

-- name: unmake
delete from {schema}.receipt
where id = %(id)s and epoch = %(epoch)s and mark = %(mark)s and state = 'pending' and payload is null
returning 1

-- name: release
update {schema}.receipt set mark = null
where id = %(id)s and epoch = %(epoch)s and mark = %(mark)s and state = 'pending'
returning 1

-- name: forget
delete from {schema}.delivery where id = %(id)s and mark = %(mark)s

-- name: await_hand_over
update {schema}.delivery set mark = null, until = null, next_at = {clock} + %(wait)s
where id = %(id)s and mark = %(mark)s
