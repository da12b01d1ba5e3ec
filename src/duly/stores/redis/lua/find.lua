-- find: jobs of a selection, newest request first; reads, never changes. One call looks at a bounded number
-- of jobs: the second answer says below which generation to go on, or null at the end.
-- [[job, …], [where to go on]]; with `only_texts` of a job [id, generation, key, error, arguments, context].
-- `at_once` is how many jobs may be looked at, where that is less than usual.
-- `plainly` is a text in small letters that JSON never escapes: jobs in which it cannot stand are left out.

local selecting, showing, index, rows = need("selecting", "showing", "index", "rows")

local selection = selecting.read(given.selection)
local AT_ONCE = selecting.is_narrow(selection) and not given.only_texts and 2000 or 500
AT_ONCE = math.min(AT_ONCE, given.at_once or AT_ONCE)
local MOST_CAUSES = 200
local below = given.before and "(" .. whole(given.before) or "+inf"

local function newest_in(name)
    return call("ZREVRANGEBYSCORE", prefix .. name, below, "-inf", "WITHSCORES", "LIMIT", 0, AT_ONCE)
end

-- Jobs on loan are few enough to be looked at together.
local function running_ids()
    local ids = {}
    for _, worker in ipairs(call("ZRANGE", prefix .. "holders", 0, -1)) do
        for _, id in ipairs(call("SMEMBERS", prefix .. "held:" .. worker)) do
            ids[#ids + 1] = id
        end
    end
    return ids
end

-- The lists that hold every job of the states asked for.
local function lists()
    if selection.key then
        return { "key:" .. selection.key }
    elseif selection.fingerprint then
        return { "fingerprint:" .. selection.fingerprint }
    elseif selection.with_error and call("ZCARD", prefix .. "failures") <= MOST_CAUSES then
        local names = call("ZRANGE", prefix .. "failures", 0, -1)
        for place, name in ipairs(names) do
            names[place] = "fingerprint:" .. name
        end
        AT_ONCE = math.max(20, math.floor(AT_ONCE / math.max(1, #names)))
        return names
    elseif not selection.states or selection.states.done then
        return { "all" }
    end
    local names, listed = {}, {}
    for state in pairs(selection.states) do
        local name = index.SHELVES[state]
        if not listed[name] then
            listed[name] = true
            names[#names + 1] = name
        end
    end
    return names
end

-- Of everything that is listed, only what went well has no list of its own. So where none of it is among the next
-- ones, the counts of the other lists tell, and a backlog of any length is leapt over in 20 looks.
local function leap()
    local wanted_lists, others = {}, {}
    for state in pairs(selection.states) do
        wanted_lists[index.SHELVES[state] or "all"] = true
    end
    for _, name in ipairs({ "live", "failed", "cancelled", "skipped" }) do
        others[#others + 1] = not wanted_lists[name] and prefix .. name or nil
    end
    local all = prefix .. "all"
    local count = call("ZCOUNT", all, "-inf", below)
    local function has_wanted(place) -- among those from this place on
        local first, wanted = call("ZRANGE", all, place, place, "WITHSCORES")[2], count - place
        for _, name in ipairs(others) do
            wanted = wanted - call("ZCOUNT", name, first, below)
        end
        return wanted > 0, first
    end
    local low, high, from = 0, count - 1, nil
    while low <= high do
        local middle = math.floor((low + high) / 2)
        local is_below, generation = has_wanted(middle)
        if is_below then
            low, from = middle + 1, generation
        else
            high = middle - 1
        end
    end
    below = from or "-inf"
end

-- Of one list, which is most of what is walked: without the scores of all those that are passed over.
local function next_of(name)
    if name == "all" and selection.states then
        leap()
    end
    local ids = call("ZREVRANGEBYSCORE", prefix .. name, below, "-inf", "LIMIT", 0, AT_ONCE)
    local last = #ids == AT_ONCE and tonumber(call("ZSCORE", prefix .. name, ids[#ids])) or nil
    if not selecting.is_narrow(selection) then
        return ids, last
    end -- the newest come first, so one more than asked for is enough
    local is_sure = not selection.key and not selection.fingerprint and not given.plainly
    return selecting.sifted(ids, selection, is_sure and given.limit and given.limit + 1 or nil), last
end

-- Ids in falling order of generation, and where the next call goes on.
local function next_ids()
    local entries, last, names = {}, nil, lists()
    if #names == 1 then
        return next_of(names[1])
    end
    for _, name in ipairs(names) do
        local found = newest_in(name)
        for place = 1, #found, 2 do
            entries[#entries + 1] = { id = found[place], generation = tonumber(found[place + 1]) }
        end
        if #found == 2 * AT_ONCE then -- below its last one another may lie: nothing older is surely next
            last = math.max(last or 0, tonumber(found[#found]))
        end
    end
    local ids = {}
    for _, entry in ipairs(entries) do
        if not last or entry.generation >= last then
            ids[#ids + 1] = entry.id
        end
    end
    return selecting.is_narrow(selection) and selecting.sifted(ids, selection) or ids, last
end

local function is_only_running()
    return selection.states and selection.states.running and not next(selection.states, next(selection.states))
end

local ids, last
if selection.ids[1] then
    ids = selection.ids
elseif is_only_running() and not selection.key and not selection.fingerprint then
    ids = running_ids()
elseif selecting.is_there(selection) then
    ids, last = next_ids()
else
    ids = {}
end
if given.plainly then
    ids = selecting.plausible(ids, given.plainly, given.only_texts and { "state", "error", "body" } or { "error" })
end
local page = {}
for _, row in ipairs(selecting.matching(ids, selection)) do
    if given.limit and #page >= given.limit then
        last = page[#page].generation
        break
    elseif not given.before or row.generation < given.before then
        page[#page + 1] = row
    end
end
if given.only_texts then
    local bodies, errors, shown = showing.texts_of("body", page), showing.texts_of("error", page), {}
    for place, row in ipairs(page) do
        local key = row.is_keyed and rows.open(row).key or nil
        local texts = show_all({ row.id, row.generation, key, errors[place] }, 4)
        shown[place] = texts:sub(1, -2) .. "," .. (bodies[place] or '"",""') .. "]"
    end
    return "[[" .. concat(shown, ",") .. "],[" .. show(last) .. "]]"
end
if given.only_ids then
    local errors, shown = given.with_error and showing.texts_of("error", page) or {}, {}
    for place, row in ipairs(page) do
        shown[place] = show_all({ row.id, row.has_error and errors[place] or nil }, 2)
    end
    return "[[" .. concat(shown, ",") .. "],[" .. show(last) .. "]]"
end
return "[" .. showing.rows(page, given.with_history) .. ",[" .. show(last) .. "]]"
