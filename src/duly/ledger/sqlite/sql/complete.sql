-- complete: the receipt is done, if and only if the claim that says so is still the one in force. Runs in the
-- body's transaction.

-- name: complete
update duly_receipt set state = 'completed', completed_at = :now
where id = :id and epoch = :epoch and mark = :mark and state = 'pending'
returning 1
