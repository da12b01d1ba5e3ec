-- keep_grip: the holder keeps its lock for longer, even late, as long as nobody else took it. [[whether]]

local lock = call("HGET", prefix .. "locks", given.name)
if not lock or cmsgpack.unpack(lock) ~= given.token then
    return "[[0]]"
end
call("ZADD", prefix .. "grips", boot + given.ttl, given.name)
return "[[1]]"
