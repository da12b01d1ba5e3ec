-- hold: a lane stands still, until somebody resumes it or until a time. []
-- Of two holds the one that ends later stands; one set again keeps its place in the list.

local field = given.scope .. ":" .. given.name
local known = call("HGET", prefix .. "switches", field)
local closes_at = given.closes_at or nil
local order, ends_at
if known then
    order, ends_at = cmsgpack.unpack(known)
    if closes_at and (not ends_at or ends_at > closes_at) then
        return "[]"
    end
else
    order = call("HINCRBY", prefix .. "meta", "switches", 1)
end
call("HSET", prefix .. "switches", field, cmsgpack.pack(order, closes_at, given.reason))
return "[]"
