-- let_go: the holder gives its lock back. [[whether it was still its own]]

local lock = call("HGET", prefix .. "locks", given.name)
if not lock or cmsgpack.unpack(lock) ~= given.token then
    return "[[0]]"
end
call("HDEL", prefix .. "locks", given.name)
call("ZREM", prefix .. "grips", given.name)
return "[[1]]"
