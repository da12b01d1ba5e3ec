-- straight: put for a few requests that meet nobody, ask for no more than a moment, and differ in id and body only.
-- It writes what plain.create writes, spelled out: to build the parts that a whole put stands on takes the
-- server longer than one job itself, and so does reading a request. What such jobs have in common comes packed as
-- it is stored: the head of a job, what of it is shown, the end of its rest; then its lane; when it is due, or after
-- how long ("+1000000"); then id, body, id, body, …
-- [generation of the first], or [] and nothing has happened: one of the ids is known, or everything moves.

local FIRST = 8 -- of the ids
local head, shown, rest_end, lane, moment = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local due = moment:byte() == 43 and now + tonumber(moment) or tonumber(moment)
local count = (#ARGV - FIRST + 1) / 2
if call("HGET", prefix .. "house", "stage") then
    return "[]"
end
for at = FIRST, #ARGV, 2 do
    if call("HEXISTS", prefix .. "state", ARGV[at]) == 1 then
        return "[]"
    end
end

local pack = cmsgpack.pack
local due_shown = format("%d", due)
local rest = pack(0, 0, 0, nil, nil, nil, now, nil) .. rest_end
local last = call("HINCRBY", prefix .. "meta", "last", count) - count
for place = 1, count do
    local at, generation = FIRST + 2 * place - 2, last + place
    local id, number = ARGV[at], format("%016d", generation)
    local text = head .. pack(shown, due, generation, due, 0, nil, rest, number, generation % 128)
    call("HSET", prefix .. "state", id, text)
    call("HSET", prefix .. "body", id, ARGV[at + 1])
    call("ZADD", prefix .. "all", number, id)
    call("ZADD", prefix .. "live", number, id)
    call("ZADD", prefix .. "ready:" .. lane, due_shown, number .. id)
end
call("ZADD", prefix .. "lanes", "LT", due_shown, lane)
call("HINCRBY", prefix .. "tally", "waiting:" .. lane:sub(lane:find(":", 1, true) + 1), count)
call("PUBLISH", prefix .. "bell", "1")
return format("[%d]", last + 1)
