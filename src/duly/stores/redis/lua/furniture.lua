-- furniture: what is neither a job nor a record nor a start.
-- [[last number], [[what, how often], …], [[serial, until, id], …], [[serial, at], …],
-- [[lock, owner, token, time left], …], [[delivered id, until], …]]

local function list(shown)
    return "[" .. concat(shown, ",") .. "]"
end

local tallies, windows, markers, locks, deliveries = {}, {}, {}, {}, {}
local found = call("HGETALL", prefix .. "tally")
for place = 1, #found, 2 do
    if found[place]:sub(1, 1) == "=" then
        tallies[#tallies + 1] = show_all({ found[place]:sub(2), tonumber(found[place + 1]) }, 2)
    end
end
found = call("ZRANGE", prefix .. "windows", 0, -1, "WITHSCORES")
for place = 1, #found, 2 do
    local id = call("HGET", prefix .. "guards", found[place])
    windows[#windows + 1] = show_all({ found[place], tonumber(found[place + 1]), id or "" }, 3)
end
found = call("HGETALL", prefix .. "markers")
for place = 1, #found, 2 do
    markers[#markers + 1] = show_all({ found[place], tonumber(found[place + 1]) }, 2)
end
found = call("ZRANGEBYSCORE", prefix .. "grips", "(" .. whole(boot), "+inf", "WITHSCORES")
for place = 1, #found, 2 do
    local token, owner = cmsgpack.unpack(call("HGET", prefix .. "locks", found[place]))
    locks[#locks + 1] = show_all({ found[place], owner, token, tonumber(found[place + 1]) - boot }, 4)
end
found = call("ZRANGEBYSCORE", prefix .. "delivered", "(" .. whole(now), "+inf", "WITHSCORES")
for place = 1, #found, 2 do
    deliveries[#deliveries + 1] = show_all({ found[place], tonumber(found[place + 1]) }, 2)
end
local last = tonumber(call("HGET", prefix .. "meta", "last") or 0)
return "[[" .. whole(last) .. "]," .. list({ list(tallies), list(windows), list(markers), list(locks), list(deliveries) }):sub(2)
