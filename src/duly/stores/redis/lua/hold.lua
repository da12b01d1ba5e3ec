-- hold: a lane stands still, until somebody resumes it or until a time. []
-- A switch set again keeps its place in the list.

local field = given.scope .. ":" .. given.name
local known = call("HGET", prefix .. "switches", field)
local order = known and cmsgpack.unpack(known) or call("HINCRBY", prefix .. "meta", "switches", 1)
local closes_at = given.closes_at or nil
call("HSET", prefix .. "switches", field, cmsgpack.pack(order, closes_at, given.reason))
return "[]"
