-- complete: the receipt is done, if and only if the claim that says so is still the one in force. Runs in the
-- body's transaction.

-- name: complete
update {schema}.receipt set state = 'completed', completed_at = {clock}
where id = %(id)s and epoch = %(epoch)s and mark = %(mark)s and state = 'pending'
returning 1
