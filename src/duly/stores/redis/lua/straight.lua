-- straight: put for a few requests that meet nobody, ask for no more than a moment, and differ in id and body only.
-- It writes what plain.create writes, spelled out: to build the parts that a whole put stands on takes the
-- server longer than one job itself.
-- {pattern: request, each: [id, body, id, body, …]}; [generation of the first], or [] and nothing has happened
-- because one of the ids is known.

local values, each = given.pattern, given.each
local ids, states, ready, numbers = {}, {}, {}, {}
for place = 1, #each / 2 do
    ids[place] = each[2 * place - 1]
end
for _, text in ipairs(call("HMGET", prefix .. "state", unpack(ids))) do
    if text then
        return "[]"
    end
end

local task, queue = values[2], values[3]
local group = format("%d:", #task) .. task .. queue
local lane = format("%d:", values[4]) .. group
local due = values[7] or (values[8] and now + values[8]) or now
local tick = values[19] or nil
local due_shown = whole(due)
local shown = "null,0,0,0,0,false," .. show(tick) .. ",null"
local pack = cmsgpack.pack
local head = pack("waiting", 0, lane, values[16], 0, 0, nil, "-", "", "", nil)
local rest = pack(0, 0, 0, nil, nil, nil, now, nil, nil, values[11], values[12], values[18], values[17], tick, values[15], nil)
local last = call("HINCRBY", prefix .. "meta", "last", #ids) - #ids
for place = 1, #ids do
    local id, generation = ids[place], last + place
    local number = format("%016d", generation)
    states[2 * place - 1] = id
    states[2 * place] = head .. pack(shown, due, generation, due, 0, nil, rest, number, generation % 128)
    ready[2 * place - 1], ready[2 * place] = due_shown, number .. id
    numbers[2 * place - 1], numbers[2 * place] = number, id
end

call("HSET", prefix .. "state", unpack(states))
call("HSET", prefix .. "body", unpack(each))
call("ZADD", prefix .. "all", unpack(numbers))
call("ZADD", prefix .. "live", unpack(numbers))
call("ZADD", prefix .. "ready:" .. lane, unpack(ready))
call("ZADD", prefix .. "lanes", "LT", due_shown, lane)
call("HINCRBY", prefix .. "tally", "waiting:" .. group, #ids)
call("PUBLISH", prefix .. "bell", "1")
return "[" .. whole(last + 1) .. "]"
