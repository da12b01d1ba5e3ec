-- prune: deletes what finished long ago, oldest first, and whatever else has outlived its use.
-- Markers stay. [[how many jobs]]

local rows, index, recovery = need("rows", "index", "recovery")

local DAY = 86400000000
local AT_ONCE = 1000

pending.is_urgent = true

local function ended(name, at, limit)
    return call("ZRANGEBYSCORE", prefix .. name, "-inf", at, "LIMIT", 0, limit)
end

local function drop_results()
    for _, id in ipairs(ended("results", now, AT_ONCE)) do
        local row = rows.of(id)
        pending.rank("results", id, false)
        pending.write("result", id, false)
        if row then
            row.has_result = false
            rows.touch(row)
        end
    end
end

local function drop_jobs(limit)
    local members, ids = ended("forget", now, limit), {}
    for place, member in ipairs(members) do
        ids[place] = naming.denumbered(member)
    end
    stored.load(ids)
    for place, member in ipairs(members) do
        local row = rows.of(ids[place])
        if row then
            index.remove(row)
        else
            pending.rank("forget", member, false) -- its row was deleted by hand
        end
    end
    return #members
end

local function drop_windows()
    for _, serial in ipairs(ended("windows", now, AT_ONCE)) do
        pending.rank("windows", serial, false)
        pending.write("guards", serial, false)
    end
end

local function drop_entries()
    for _, number in ipairs(ended("entries", now, AT_ONCE)) do
        local kind = cmsgpack.unpack(call("HGET", prefix .. "entry", number))
        pending.rank("diary:" .. kind, number, false)
        pending.rank("entries", number, false)
        pending.write("entry", number, false)
    end
end

-- Locks and throttles that were over a day ago, and workers that died without a word.
local function drop_abandoned()
    for _, name in ipairs(ended("grips", boot - DAY, AT_ONCE)) do
        pending.rank("grips", name, false)
        pending.write("locks", name, false)
    end
    for _, worker in ipairs(call("HKEYS", prefix .. "workers")) do
        local is_gone = not workers.has_lease(worker) and workers.presence_of(worker).seen_at <= now - DAY
        if is_gone and call("EXISTS", prefix .. "held:" .. worker) == 0 then
            pending.write("workers", worker, false)
        end
    end
    local switches = call("HGETALL", prefix .. "switches")
    for place = 1, #switches, 2 do
        local _, closes_at = cmsgpack.unpack(switches[place + 1])
        if closes_at and closes_at <= now - DAY then
            pending.write("switches", switches[place], false)
        end
    end
end

-- Counts of what is on loan decide about limits: should somebody have deleted keys, they are set right here.
local function recount_loans()
    local counts, written = {}, call("HGETALL", prefix .. "tally")
    for _, worker in ipairs(call("ZRANGE", prefix .. "holders", 0, -1)) do
        for _, row in ipairs(recovery.loans_of(worker)) do
            local field = "@" .. naming.lane_named(row.lane).task
            counts[field] = (counts[field] or 0) + 1
        end
    end
    for place = 1, #written, 2 do
        local field = written[place]
        if field:sub(1, 1) == "@" then
            pending.tally(field, (counts[field] or 0) - tonumber(written[place + 1]))
            counts[field] = nil
        end
    end
    for field, by in pairs(counts) do
        pending.tally(field, by)
    end
end

drop_results()
recount_loans()
local pruned = drop_jobs(given.limit)
drop_windows()
drop_entries()
delivered.forget(10 * AT_ONCE)
drop_abandoned()
flush()
return format("[[%d]]", pruned)
