-- requests: one request against what stands for its serial, as put and the follow-ups of settle need it.

local requests = {}
do
    local windows = {}

    -- Fields in the order duly.stores.redis.packing sends them; false means absent.
    function requests.read(values)
        return {
            id = values[1],
            task = values[2],
            queue = values[3],
            priority = values[4],
            key = values[5] or nil,
            serial = values[6] or nil,
            run_after = values[7] or nil,
            delay = values[8] or nil,
            expires_after = values[9] or nil,
            clash = values[10],
            overlap = values[11],
            per_key = values[12],
            window = values[13] or nil,
            trailing = values[14],
            delivery = values[15],
            keep_done = values[16],
            keep_failed = values[17],
            perpetual = values[18],
            tick = values[19] or nil,
            body = values[20],
            at = values[21] or now, -- when it was made: a relay brings it later
        }
    end

    function requests.window_of(serial)
        if windows[serial] == nil then
            local closes_at = call("ZSCORE", prefix .. "windows", serial)
            local id = closes_at and call("HGET", prefix .. "guards", serial)
            windows[serial] = id and { closes_at = tonumber(closes_at), id = id } or false
        end
        return windows[serial] or nil
    end

    local function open_window(serial, closes_at, id)
        windows[serial] = { closes_at = closes_at, id = id }
        pending.rank("windows", serial, closes_at)
        pending.write("guards", serial, id)
    end

    local function standers_of(entries)
        local standers = {}
        for _, row in ipairs(serials.rows_in(entries)) do
            standers[#standers + 1] = { id = row.id, key = rows.open(row).key }
        end
        return standers
    end

    local function has_marker(serial)
        local written = pending.written("markers", serial)
        if written ~= nil then
            return written ~= false
        end
        return call("HEXISTS", prefix .. "markers", serial) == 1
    end

    local NOBODY = { waiting = {}, running = {} }

    -- Ticks that wait for each other may be thousands, each with a key of its own. Where they are not overtaken,
    -- and nobody has had this key yet, all that is asked of them is whether there is one.
    local function is_alone_with_its_key(request)
        local is_patient = request.overlap == "queue_all" or request.overlap == "allow"
        local name = is_patient and request.key and "key:" .. request.key
        return name and not pending.is_ranking(name) and call("EXISTS", prefix .. name) == 0
    end

    local function waiting_for(request, view)
        if is_alone_with_its_key(request) then
            local first = view.w[1] or view.p[1]
            return first and { { id = first.id } } or {}
        end
        return standers_of(serials.waiting_in(view))
    end

    local function scene_of(request)
        local serial = request.serial
        if not serial then
            return NOBODY
        end
        local view = serials.view_of(serial)
        return {
            waiting = waiting_for(request, view),
            running = standers_of(view.r),
            window = request.window and requests.window_of(serial),
            has_marker = request.clash == "seed" and has_marker(serial),
        }
    end

    local function due_of(request)
        return request.run_after or (request.delay and request.at + request.delay) or request.at
    end

    -- A waiting job is cancelled at once; a running one is marked and learns it at its next write.
    local function supersede(row, by)
        if row.state == "running" then
            rows.set_order(row, "superseded_by", by)
        else
            lifecycle.finish(row, "supersede", "superseded by " .. by)
            pending.tell("superseded")
        end
    end

    local function clear_the_way(request, placement)
        for _, id in ipairs(placement.supersedes or {}) do
            supersede(rows.of(id), request.id)
        end
        for _, id in ipairs(placement.overtakes or {}) do
            lifecycle.finish(rows.of(id), "overtake", "overtaken by " .. (request.key or "None"))
        end
        for _, id in ipairs(placement.cancels or {}) do
            local row = rows.of(id)
            rows.set_order(row, "wish", rows.open(row).wish == "delete" and "delete" or "cancel")
        end
    end

    -- One job, latest arguments, earliest time, fresh budget.
    local function merge(row, request, due)
        local rest = rows.open(row)
        row.lane = naming.lane_of(naming.lane_named(row.lane).task, request.queue, request.priority).name
        row.ready_at = math.min(row.ready_at, due)
        rest.due = math.min(rest.due, due)
        rest.expires_after = request.expires_after
        rest.expires_at = request.expires_after and request.at + request.expires_after
        row.attempt, rest.crashes, rest.deferrals = 0, 0, 0
        rest.first_failure = nil
        rest.cycle = rest.cycle + 1 -- other arguments are another effect: the idempotency key must not repeat
        pending.write("body", row.id, request.body)
        index.update(row)
        pending.is_ready = true
    end

    local function write_placement(request, placement, due)
        if placement.creates then
            if request.serial then
                pending.write("markers", request.serial, false)
            end
            return index.create(request, due, placement.is_parked).generation
        end
        local row = rows.of(placement.merges_into or placement.id)
        if row and placement.merges_into then
            merge(row, request, due)
        end
        return row and row.generation or 0
    end

    function requests.put_one(request)
        local known = rows.of(request.id)
        if known then -- the same request again: its first answer was lost on the way
            return known.id, known.generation, "kept"
        end
        local placement = clash.place(request, scene_of(request), request.at)
        clear_the_way(request, placement)
        local generation = write_placement(request, placement, placement.due or due_of(request))
        if placement.is_suppressed then
            pending.tell("suppressed")
        end
        if placement.opens_window and request.serial then
            open_window(request.serial, request.at + request.window, placement.id)
        end
        return placement.id, generation, placement.decision
    end
end
