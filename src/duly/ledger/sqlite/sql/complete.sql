-- complete: the receipt is done, if and only if the claim that says so is still the one in force. Runs in the
-- body's transaction. One that was exhausted while its body ran is done all the same.

-- name: complete
update duly_receipt set state = 'completed', completed_at = :now
where id = :id and epoch = :epoch and mark = :mark and state in ('pending', 'exhausted')
returning 1
