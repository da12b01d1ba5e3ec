-- settle: per claim all or nothing: verdict, history line and follow-up puts, under the fence.
-- [[answer, …]] in the order of the settlements, or [[]] if all are settled

pending.is_urgent = true
local answers = ending.settle_all(given.worker, given.ends, given.others)
flush()
pending.ring()
return "[" .. answers .. "]"
