-- renew: extends a worker's lease; says which of its claims are lost, superseded or wished to stop.
-- [[[place, "lost" | "cancel" | "superseded"], …], [is at home]]: only claims with something to say, and whether
-- the keys serve this code and nobody moves them, so that a beat need not ask for it apart.

local rows, lifecycle = need("rows", "lifecycle")

-- After a FLUSHALL there is no layout, and nobody who could not be served.
local function is_at_home()
    return not house.stage and tonumber(call("HGET", prefix .. "meta", "serves") or 0) <= given.layout
end

pending.is_urgent = true
local presence = workers.presence_of(given.worker) or {}
presence.lease_until, presence.seen_at = boot + given.lease, now
presence.host, presence.card = given.host, given.card
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
return "[[" .. concat(told, ",") .. "],[" .. show(is_at_home()) .. "]]"
