-- turn: settle and claim in one step, the claim seeing what the settle freed.
-- [[answer, …] or [] if all are settled, [claims, when asking again may find more, now, how many claims]]

pending.is_urgent = true
local answers = ending.settle_all(given.ask.worker, given.ends, given.others)
flush()
local claimed = lending.claim(given.ask)
pending.ring()
return "[" .. answers .. "," .. claimed .. "]"
