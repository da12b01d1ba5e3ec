-- shut: nothing changes any more, if nothing runs. [[how many run, 0, 0]]: no request waits to be placed here

local running = 0
for _, worker in ipairs(call("ZRANGE", prefix .. "holders", 0, -1)) do
    running = running + call("SCARD", prefix .. "held:" .. worker)
end
if running == 0 and house.is_at(given.move, { "sealed" }) then
    call("HSET", prefix .. "house", "stage", "closed")
end
return format("[[%d,0,0]]", running)
