-- straight: put for a few requests that meet nobody, ask for no more than a moment, and differ in id and body only.
-- It writes what plain.create writes, spelled out: to build the parts that a whole put stands on takes the
-- server longer than one job itself, and so does reading a request. What such jobs have in common comes packed as
-- it is stored: how a job begins, up to the moment when it is due, and the end of its rest; then its lane; when it is
-- due, or after how long ("+1000000"); then id, body, id, body, …
-- The generation of the first, or 0 and nothing has happened: one of the ids is known, or everything moves.

local FIRST = 7 -- of the ids
local beginning, rest_end, lane, moment = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local due = moment:byte() == 43 and now + tonumber(moment) or tonumber(moment)
local count = (#ARGV - FIRST + 1) / 2
if call("HGET", prefix .. "house", "stage") then
    return 0
end
for at = FIRST + 2, #ARGV, 2 do -- the first is not looked for: writing it tells
    if call("HEXISTS", prefix .. "state", ARGV[at]) == 1 then
        return 0
    end
end

local pack = cmsgpack.pack
local due_shown = format("%d", due)
local due_packed = pack(due)
-- No crash, deferral or cycle yet; no first failure, successor or wish; since when; no expiry. Bytes are spelled out
-- because `pack` makes a text of every value that it is given.
local rest = pack("\0\0\0\192\192\192" .. pack(now) .. "\192" .. rest_end)
local last = call("HINCRBY", prefix .. "meta", "last", count) - count
for place = 1, count do
    local at, generation = FIRST + 2 * place - 2, last + place
    local id, number = ARGV[at], format("%016d", generation)
    local text = beginning .. due_packed .. pack(generation) .. due_packed .. "\0\192" .. rest .. "\176" .. number
        .. string.char(generation % 128)
    if call("HSETNX", prefix .. "state", id, text) == 0 then
        call("HINCRBY", prefix .. "meta", "last", -count)
        return 0
    end
    call("HSET", prefix .. "body", id, ARGV[at + 1])
    call("ZADD", prefix .. "all", number, id)
    call("ZADD", prefix .. "live", number, id)
    call("ZADD", prefix .. "ready:" .. lane, due_shown, number .. id)
end
call("ZADD", prefix .. "lanes", "LT", due_shown, lane)
call("HINCRBY", prefix .. "tally", "waiting:" .. lane:sub(lane:find(":", 1, true) + 1), count)
call("PUBLISH", prefix .. "bell", "1")
return last + 1
