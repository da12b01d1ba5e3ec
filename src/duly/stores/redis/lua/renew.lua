-- renew: extends a worker's lease; says which of its claims are lost, superseded or wished to stop.
-- [[place, "lost" | "cancel" | "superseded"], …], only for claims with something to say

local rows, lifecycle = need("rows", "lifecycle")

pending.is_urgent = true
local presence = { lease_until = boot + given.lease, seen_at = now, host = given.host, card = given.card }
workers.be_present(given.worker, presence)
local ids, told = {}, {}
for place, fence in ipairs(given.fences) do
    ids[place] = fence[1]
end
stored.load(ids)
for place, fence in ipairs(given.fences) do
    local row = rows.of(fence[1])
    local word = "lost"
    if lifecycle.fence_holds(row, fence[2], fence[3]) then
        word = lifecycle.order_for(row)
    end
    if word then
        told[#told + 1] = format('[%d,"%s"]', place - 1, word)
    end
end
flush()
return "[" .. concat(told, ",") .. "]"
