-- index: which indexes name a row, written down once. An operation changes fields and calls `update`;
-- what was stored is compared with what is now, and the difference becomes pending writes.

local index = {}
do
    local FINISHED = rows.FINISHED
    local SHELVES = { -- newest-first lists beside "all", so that what is rare is found among what is many
        waiting = "live",
        running = "live",
        failed = "failed",
        cancelled = "cancelled",
        skipped = "skipped",
    }
    index.SHELVES = SHELVES

    local function is_ready_in(state, is_parked)
        return state == "waiting" and not is_parked
    end

    local function index_ready(row)
        local was = is_ready_in(row.was_state, row.was_parked)
        local is = is_ready_in(row.state, row.is_parked)
        local has_moved = row.was_lane ~= row.lane or row.was_generation ~= row.generation
        if was and (not is or has_moved) and not row.is_taken then
            local lane = naming.lane_named(row.was_lane)
            pending.queue("lanes", lane.name, lane.ready, naming.numbered(row.was_generation, row.id), false)
        end
        if is and (not was or has_moved or row.was_ready_at ~= row.ready_at) then
            local lane = naming.lane_named(row.lane)
            pending.queue("lanes", lane.name, lane.ready, naming.numbered(row.generation, row.id), row.ready_at)
            pending.is_ready = true
        end
        row.is_taken = nil
    end

    local function index_loan(row)
        local was = row.was_state == "running" and row.was_worker or nil
        local is = row.state == "running" and row.worker or nil
        if was ~= is then
            local busy = "@" .. naming.lane_named(row.was_lane or row.lane).task
            if was then
                pending.belong("held:" .. was, row.id, false)
                workers.touch(was)
                pending.tally(busy, -1)
            end
            if is then
                pending.belong("held:" .. is, row.id, true)
                workers.touch(is)
                pending.tally(busy, 1)
            end
        end
    end

    local function index_state(row)
        local was, is = row.was_state, row.state
        local was_group = was and naming.lane_named(row.was_lane).group
        local group = is and naming.lane_named(row.lane).group
        if was ~= is or was_group ~= group then
            if was then
                pending.tally(was .. ":" .. was_group, -1)
            end
            if is then
                pending.tally(is .. ":" .. group, 1)
            end
        end
        local from, to = SHELVES[was], SHELVES[is]
        if from ~= to then
            if from then
                pending.rank(from, row.id, false)
            end
            if to then
                pending.rank(to, row.id, row.generation)
            end
        end
    end

    local function index_end(row)
        local was, is = FINISHED[row.was_state], FINISHED[row.state]
        if was and not is then
            pending.rank("forget", naming.numbered(row.born, row.id), false)
        elseif is and not was then
            local keep = row.state == "failed" and rows.open(row).keep_failed or row.keep_done
            pending.rank("forget", naming.numbered(row.born, row.id), row.finished_at + keep)
        end
    end

    local function index_expiry(row)
        local rest = rows.open(row)
        local was = row.was_state == "waiting" and rest.was_expires_at or nil
        local is = row.state == "waiting" and rest.expires_at or nil
        local was_group = was and naming.lane_named(row.was_lane).group
        local group = is and naming.lane_named(row.lane).group
        if was == is and was_group == group then
            return
        end
        if was and was_group ~= group then
            pending.queue("expiries", was_group, "expiry:" .. was_group, row.id, false)
        end
        if is then
            pending.queue("expiries", group, "expiry:" .. group, row.id, is)
        end
        rest.was_expires_at = rest.expires_at
    end

    -- A row of this generation is found by it: new, brought back to life, or gone.
    local function index_generation(row)
        local generation = row.state and row.generation or false
        pending.rank("all", row.id, generation)
        local key = row.is_keyed and rows.open(row).key
        if key then
            pending.rank("key:" .. key, row.id, generation)
        end
    end

    function index.update(row)
        index_ready(row)
        index_loan(row)
        index_state(row)
        index_end(row)
        if row.has_expiry or row.rest then
            index_expiry(row)
        end
        if row.serial then
            serials.stand(row)
        end
        if row.was_generation ~= row.generation or not row.state then
            index_generation(row)
        end
        rows.remember(row)
        rows.touch(row)
    end

    -- Nothing of the job stays behind.
    function index.remove(row)
        row.state = nil
        index.update(row)
        pending.write("state", row.id, false)
        pending.write("body", row.id, false)
        rows.forget_error(row)
        if row.has_result then
            pending.write("result", row.id, false)
            pending.rank("results", row.id, false)
        end
        rows.forget_progress(row)
        if row.lines > 1 then
            pending.delete("history:" .. row.id)
        end
        rows.drop(row)
    end

    function index.create(request, due, is_parked)
        local lane = naming.lane_of(request.task, request.queue, request.priority)
        local generation = pending.count_up()
        local row = {
            id = request.id,
            state = "waiting",
            is_parked = is_parked,
            generation = generation,
            born = generation,
            epoch = 0,
            lines = 0,
            attempt = 0,
            ready_at = due,
            keep_done = request.keep_done,
            nonce = NOBODYS,
            worker = "",
            lane = lane.name,
            serial = request.serial,
            reason = "",
            is_at_most_once = request.delivery == "at_most_once",
            is_keyed = request.key ~= nil or request.serial ~= nil,
            rest = {
                crashes = 0,
                deferrals = 0,
                cycle = 0,
                due = due,
                created_at = request.at,
                expires_at = request.expires_after and request.at + request.expires_after,
                key = request.key,
                overlap = request.overlap,
                per_key = request.per_key,
                perpetual = request.perpetual,
                keep_failed = request.keep_failed,
                tick = request.tick,
                delivery = request.delivery,
                expires_after = request.expires_after,
            },
        }
        rows.add(row)
        pending.write("body", row.id, request.body)
        index.update(row)
        return row
    end
end
