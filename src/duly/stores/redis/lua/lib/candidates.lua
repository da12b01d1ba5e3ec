-- candidates: jobs at the head of a lane about which there is something to decide before they are lent.

local candidates = {}
do
    local places = {} -- where each lent job that has a serial stood in the order of lending

    local function place_of(row, lane)
        return {
            priority = lane.priority,
            ready_at = row.ready_at,
            generation = row.generation,
            serial = row.serial,
        }
    end

    local function must_park(row)
        local per_key = row.serial and rows.open(row).per_key or 0
        return per_key > 0 and #serials.view_of(row.serial).r >= per_key
    end

    local function lend(row, lane, ask)
        lending.record_row(row, lane)
        if row.serial then
            places[#places + 1] = place_of(row, lane)
        end
        if row.has_orders and rows.open(row).wish == "hurry" then
            row.rest.wish = nil
        end
        row.state = "running"
        row.epoch = row.epoch + 1
        row.nonce = ask.nonce -- one secret for the whole claim: a fence names the job beside it
        row.worker = ask.worker
        row.has_begun, row.began_isolated = false, false -- an operator's retry may bring back what had begun
        rows.forget_progress(row)
        index.update(row)
    end

    -- Whether the head of a lane has left the ready set: lent, parked, expired, or never rightly there.
    function candidates.has_left(id, lane, ask)
        local row = rows.of(id)
        if not row or row.state ~= "waiting" or row.is_parked then
            return true
        end
        row.is_taken = true -- the lane is shortened at its head, whatever becomes of the job
        if row.has_expiry and rows.open(row).expires_at <= now then
            lifecycle.finish(row, "expire", "expired")
        elseif must_park(row) then
            row.is_parked = true
            index.update(row)
        elseif lanes.take_room(lane.task) then
            lend(row, lane, ask)
        else
            row.is_taken = nil
            return false
        end
        return true
    end

    -- --- jobs behind a run, in lanes that may start nothing ---

    local function is_later(one, other)
        if one.priority ~= other.priority then
            return one.priority < other.priority
        elseif one.ready_at ~= other.ready_at then
            return one.ready_at > other.ready_at
        end
        return one.generation > other.generation
    end

    -- As it was when this claim would have come to it: later loans did not count yet, and a full claim stops.
    local function is_behind(place, runs, per_key, limit)
        local count, last = lending.standing()
        if count >= limit and (count == 0 or is_later(place, last)) then
            return false
        end
        for _, other in ipairs(places) do
            if other.serial == place.serial and is_later(other, place) then
                runs = runs - 1
            end
        end
        return runs >= per_key
    end

    local function is_refused(row, lane)
        local is_met = lanes.refused[lane.task] and lanes.is_served(lane.task, lane.queue)
        return is_met and row.ready_at <= now and not lanes.held_until(lane)
    end

    local function park_behind_runs(serial, limit)
        local view = serials.view_of(serial)
        for _, row in ipairs(serials.rows_in(view.w)) do
            local lane, per_key = naming.lane_named(row.lane), rows.open(row).per_key
            local may_wait = per_key > 0 and is_refused(row, lane)
            if may_wait and is_behind(place_of(row, lane), #view.r, per_key, limit) then
                row.is_parked = true
                index.update(row)
            end
        end
        if #view.w == 0 or #view.r == 0 then
            pending.belong("tight", serial, false)
        end
    end

    -- They leave the ready set though their lane is full. They are found from the runs: no backlog is walked.
    function candidates.park_refused(ask)
        for _, serial in ipairs(call("SMEMBERS", prefix .. "tight")) do
            park_behind_runs(serial, ask.limit)
        end
    end
end
