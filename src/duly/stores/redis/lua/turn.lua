-- turn: settle and claim in one step, the claim seeing what the settle freed.
-- [[answer, …], [claims, when asking again may find more, now]]

write_though_memory_is_full()
local answers = settle_all(given.ask.worker, given.settlements)
flush()
is_ready = #given.ask.lanes > 0 and is_ready
local claimed = claim(given.ask)
ring()
return "[" .. answers .. "," .. claimed .. "]"
