-- amend: an operator's order for jobs that still match the selection they were found by.
-- [[id, took effect, reason, moment the reason speaks of], …] newest request first

local rows, index, lifecycle, selecting, verdicts = need("rows", "index", "lifecycle", "selecting", "verdicts")

pending.is_urgent = true

local function answer(row, took_effect, reason, moment)
    return show_all({ row.id, took_effect, reason, moment }, 4)
end

local function cancel(row)
    if rows.FINISHED[row.state] then
        return answer(row, false, "already " .. row.state)
    end
    rows.note(row, "cancel", given.by)
    if row.state == "running" then
        rows.set_order(row, "wish", rows.open(row).wish == "delete" and "delete" or "cancel")
        return answer(row, true, "asked to stop")
    end
    lifecycle.finish(row, "cancel", "cancelled")
    return answer(row, true, "cancelled")
end

local function delete(row)
    if row.state == "running" then
        rows.note(row, "delete", given.by)
        rows.set_order(row, "wish", "delete")
        return answer(row, true, "asked to stop, then deleted")
    end
    index.remove(row)
    lifecycle.promote(row.serial)
    return answer(row, true, "deleted")
end

-- Other jobs of the same task and key, finished ones included.
local function rivals_of(row)
    local rivals = {}
    if not row.is_keyed or not rows.open(row).key then
        return rivals
    end
    local task, key = naming.lane_named(row.lane).task, row.rest.key
    for _, other in ipairs(rows.all_of(call("ZRANGE", prefix .. "key:" .. key, 0, -1))) do
        if other ~= row and naming.lane_named(other.lane).task == task then
            rivals[#rivals + 1] = other
        end
    end
    return rivals
end

local function start_afresh(row)
    local rest = rows.open(row)
    row.state = verdicts.move(row.state, "revive")
    row.generation = pending.count_up()
    row.nonce = NOBODYS -- the claim that ended it did not end what comes now
    rest.cycle = rest.cycle + 1
    row.attempt, rest.crashes, rest.deferrals = 0, 0, 0
    rest.first_failure, rest.superseded_by, rest.wish = nil, nil, nil
    row.finished_at = nil
    row.is_suspect = false
    row.ready_at, rest.due = now, now
    rest.expires_at = rest.expires_after and now + rest.expires_after
    row.reason, row.worker = "", ""
    rows.forget_error(row)
    if row.has_result then
        row.has_result = false
        pending.write("result", row.id, false)
        pending.rank("results", row.id, false)
    end
    index.update(row)
    if row.serial then
        pending.write("markers", row.serial, false)
    end
end

local function revive(row)
    if not rows.FINISHED[row.state] then
        return answer(row, false, "already " .. row.state)
    end
    local newest, first_waiting
    for _, other in ipairs(rivals_of(row)) do
        if other.generation > row.generation and (not newest or other.generation > newest.generation) then
            newest = other
        end
        if other.state == "waiting" and (not first_waiting or other.born < first_waiting.born) then
            first_waiting = other
        end
    end
    if newest then
        return answer(row, false, "a newer request exists: " .. newest.id)
    elseif first_waiting then -- one key, one waiting job: to revive a second would have it run twice
        return answer(row, false, "already waiting for this key: " .. first_waiting.id)
    end
    start_afresh(row)
    rows.note(row, "revive", given.by)
    return answer(row, true, "waiting")
end

local function postpone(row)
    if rows.FINISHED[row.state] then
        return answer(row, false, "already " .. row.state)
    elseif row.state == "running" then
        rows.set_order(row, "wish", rows.open(row).wish or "hurry")
        return answer(row, true, "running: goes on at once")
    end
    row.ready_at = given.at or now
    index.update(row)
    rows.note(row, "postpone", given.by)
    return answer(row, true, "ready at", row.ready_at)
end

local orders = { cancel = cancel, delete = delete, revive = revive, postpone = postpone }
local amended = {}
for place, row in ipairs(selecting.matching(given.ids, selecting.read(given.selection))) do
    amended[place] = orders[given.order](row)
end
flush()
pending.ring()
return "[" .. concat(amended, ",") .. "]"
