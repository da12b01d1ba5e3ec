-- turn: settle and claim in one step, the claim seeing what the settle freed.
-- [[answer, …], [claims, when asking again may find more, now]]

pending.is_urgent = true
local answers = ending.settle_all(given.ask.worker, given.settlements)
flush()
local claimed = lending.claim(given.ask)
pending.ring()
return "[" .. answers .. "," .. claimed .. "]"
