-- failures: errors by their names, the one that happened last first; reads, never changes.
-- [[[name, how many, first seen, last seen, [task, …]], …], [newest job, …]]

local rows, showing = need("rows", "showing")

local LANE = 3 -- as `rows` packs it

-- Of the packed jobs nothing but their lanes is read: 50 causes with 100 jobs each took three times as long.
local function tasks_of(ids)
    local tasks, seen = {}, {}
    for _, text in ipairs(call("HMGET", prefix .. "state", unpack(ids))) do
        local task = naming.lane_named(select(LANE + 1, cmsgpack.unpack_limit(text, LANE))).task
        if not seen[task] then
            seen[task] = true
            tasks[#tasks + 1] = json(task)
        end
    end
    return "[" .. concat(tasks, ",") .. "]"
end

local groups, samples = {}, {}
local names = call("ZRANGE", prefix .. "failures", 0, given.limit - 1, "WITHSCORES")
for place = 1, #names, 2 do
    local name, members = names[place], prefix .. "fingerprint:" .. names[place]
    local newest = call("ZREVRANGE", members, 0, given.newest - 1)
    local oldest = rows.of(call("ZRANGE", members, 0, 0)[1])
    local numbers = { call("ZCARD", members), rows.failure_of(oldest).at, -tonumber(names[place + 1]) }
    groups[#groups + 1] = "[" .. json(name) .. "," .. show_all(numbers, 3):sub(2, -2) .. "," .. tasks_of(newest) .. "]"
    samples[#samples + 1] = rows.of(newest[1])
end
return "[[" .. concat(groups, ",") .. "]," .. showing.rows(samples, false) .. "]"
