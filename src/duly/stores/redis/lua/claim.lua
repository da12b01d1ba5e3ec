-- claim: lends ready jobs to one worker: never two valid leases on one job, never one that is not yet due.
-- Jobs of workers whose lease ran out become ready first; what expired is skipped.
-- [[claims, when asking again may find more, now, how many claims]]

pending.is_urgent = true
return "[" .. lending.claim(given) .. "]"
