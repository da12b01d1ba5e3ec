-- census: jobs by state, task and queue, what was refused or suppressed, and since when queues wait.
-- [[counts], [[queue, oldest ready moment], …]] where a count is [state, task, queue, number] or [word, number]

local counts, oldest, waiting = {}, {}, {}
local found = call("HGETALL", prefix .. "tally")
for place = 1, #found, 2 do
    local field, number = found[place], tonumber(found[place + 1])
    local lead = field:sub(1, 1)
    if lead == "=" then
        counts[#counts + 1] = show_all({ field:sub(2), number }, 2)
    elseif lead ~= "@" then
        local _, last, state = field:find("^(%l+):")
        local task, queue_name = naming.parse_group(field:sub(last + 1))
        counts[#counts + 1] = show_all({ state, task, queue_name, number }, 4)
    end
end
local ready = call("ZRANGEBYSCORE", prefix .. "lanes", "-inf", now, "WITHSCORES")
for place = 1, #ready, 2 do -- in rising order, so the first of a queue is its oldest
    local name = naming.lane_named(ready[place]).queue
    if not oldest[name] then
        oldest[name] = true
        waiting[#waiting + 1] = show_all({ name, tonumber(ready[place + 1]) }, 2)
    end
end
return "[[" .. concat(counts, ",") .. "],[" .. concat(waiting, ",") .. "]]"
