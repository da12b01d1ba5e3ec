-- furnish: puts everything that is not a job in its place, however often it is said. [[whether]]
-- Deliveries and pages of diaries are added, not replaced: they come in portions of their own.

local MONTH = 30 * 86400000 -- longer than the window of any rate; a list that counts is written anew

local function fill(name, pairs_of)
    call("DEL", prefix .. name)
    for _, pair in ipairs(pairs_of) do
        call("HSET", prefix .. name, pair[1], pair[2])
    end
end

local function count_on(last)
    local known = tonumber(call("HGET", prefix .. "meta", "last") or 0)
    call("HSET", prefix .. "meta", "last", whole(math.max(known, last)))
end

local function fill_tallies()
    for _, tally in ipairs(given.tallies) do
        call("HSET", prefix .. "tally", "=" .. tally[1], whole(tally[2]))
    end
end

local function fill_windows()
    call("DEL", prefix .. "windows", prefix .. "guards")
    for _, window in ipairs(given.windows) do
        call("ZADD", prefix .. "windows", whole(window[2]), window[1])
        call("HSET", prefix .. "guards", window[1], window[3])
    end
end

local function fill_switches()
    local switches = {}
    for place, switch in ipairs(given.switches) do
        switches[place] = { switch[1], cmsgpack.pack(place, switch[2] or nil, switch[3]) }
    end
    fill("switches", switches)
    call("HSET", prefix .. "meta", "switches", #switches)
end

local function fill_locks()
    call("DEL", prefix .. "locks", prefix .. "grips")
    for _, lock in ipairs(given.locks) do
        call("HSET", prefix .. "locks", lock[1], cmsgpack.pack(lock[3], lock[2]))
        call("ZADD", prefix .. "grips", whole(boot + lock[4]), lock[1])
    end
end

local function fill_starts()
    for _, start in ipairs(given.starts) do
        call("DEL", prefix .. "starts:" .. start[1])
    end
    for _, start in ipairs(given.starts) do
        call("RPUSH", prefix .. "starts:" .. start[1], whole(start[2]))
        call("PEXPIRE", prefix .. "starts:" .. start[1], whole(MONTH))
    end
end

if not house.is_at(given.move, { "arriving" }) then
    return "[[0]]"
end
if given.deliveries then
    for _, delivery in ipairs(given.deliveries) do
        call("ZADD", prefix .. "delivered", whole(delivery[2]), delivery[1])
    end
    return "[[1]]"
end
if given.pages then
    for _, page in ipairs(given.pages) do
        local number, kind = whole(page[1]), page[2]
        call("ZADD", prefix .. "diary:" .. kind, number, number)
        call("ZADD", prefix .. "entries", whole(page[4]), number)
        call("HSET", prefix .. "entry", number, cmsgpack.pack(kind, page[3], page[4], page[5]))
    end
    return "[[1]]"
end
count_on(given.last)
fill_tallies()
fill_windows()
local markers = {}
for place, marker in ipairs(given.markers) do
    markers[place] = { marker[1], whole(marker[2]) }
end
fill("markers", markers)
fill_switches()
fill_locks()
for _, note in ipairs(given.notes) do
    call("HSET", prefix .. "record:" .. note[1], note[2], note[3])
end
fill_starts()
return "[[1]]"
