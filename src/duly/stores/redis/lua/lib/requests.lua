-- requests: one request against what stands for its serial, as put and the follow-ups of settle need it.

local read_request, window_of, put_one
do
    local windows = {}

    -- Fields in the order duly.stores.redis.packing sends them; false means absent.
    function read_request(values)
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
        }
    end

    function window_of(serial)
        if windows[serial] == nil then
            local closes_at = call("ZSCORE", prefix .. "windows", serial)
            local id = closes_at and call("HGET", prefix .. "guards", serial)
            windows[serial] = id and { closes_at = tonumber(closes_at), id = id } or false
        end
        return windows[serial] or nil
    end

    local function open_window(serial, closes_at, id)
        windows[serial] = { closes_at = closes_at, id = id }
        rank("windows", serial, closes_at)
        write("guards", serial, id)
    end

    local function standers_of(serial, entries)
        local standers = {}
        for _, row in ipairs(rows_in(serial, entries)) do
            standers[#standers + 1] = { id = row.id, key = open(row).key }
        end
        return standers
    end

    local function has_marker(serial)
        local pending = kept(hashes, "markers")[serial]
        if pending ~= nil then
            return pending ~= false
        end
        return call("HEXISTS", prefix .. "markers", serial) == 1
    end

    local NOBODY = { waiting = {}, running = {} }

    local function scene_of(request)
        local serial = request.serial
        if not serial then
            return NOBODY
        end
        local view = view_of(serial)
        return {
            waiting = standers_of(serial, waiting_in(view)),
            running = standers_of(serial, view.r),
            window = request.window and window_of(serial),
            has_marker = request.clash == "seed" and has_marker(serial),
        }
    end

    local function due_of(request)
        return request.run_after or (request.delay and now + request.delay) or now
    end

    -- A waiting job is cancelled at once; a running one is marked and learns it at its next write.
    local function supersede(row, by)
        if row.state == "running" then
            open(row).superseded_by = by
            row.has_orders = true
            dirty[row.id] = row
        else
            finish(row, "supersede", "superseded by " .. by)
            tell("superseded")
        end
    end

    local function clear_the_way(request, placement)
        for _, id in ipairs(placement.supersedes or {}) do
            supersede(row_of(id), request.id)
        end
        for _, id in ipairs(placement.overtakes or {}) do
            finish(row_of(id), "overtake", "overtaken by " .. (request.key or "None"))
        end
        for _, id in ipairs(placement.cancels or {}) do
            local row = row_of(id)
            local rest = open(row)
            rest.wish = rest.wish == "delete" and "delete" or "cancel"
            row.has_orders = true
            dirty[id] = row
        end
    end

    -- One job, latest arguments, earliest time, fresh budget.
    local function merge(row, request, due)
        local rest = open(row)
        row.lane = lane_of(lane_named(row.lane).task, request.queue, request.priority).name
        row.ready_at = math.min(row.ready_at, due)
        rest.due = math.min(rest.due, due)
        rest.expires_at = request.expires_after and now + request.expires_after
        row.attempt, rest.crashes, rest.deferrals = 0, 0, 0
        rest.first_failure = nil
        rest.cycle = rest.cycle + 1 -- other arguments are another effect: the idempotency key must not repeat
        write("body", row.id, request.body)
        index(row)
        is_ready = true
    end

    local function write_placement(request, placement, due)
        if placement.creates then
            if request.serial then
                write("markers", request.serial, false)
            end
            return create(request, due, placement.is_parked).generation
        end
        local row = row_of(placement.merges_into or placement.id)
        if row and placement.merges_into then
            merge(row, request, due)
        end
        return row and row.generation or 0
    end

    function put_one(request)
        local known = row_of(request.id)
        if known then -- the same request again: its first answer was lost on the way
            return known.id, known.generation, "kept"
        end
        local generation = create_plain(request, due_of(request))
        if generation then
            return request.id, generation, "created"
        end
        local placement = place(request, scene_of(request), now)
        clear_the_way(request, placement)
        generation = write_placement(request, placement, placement.due or due_of(request))
        if placement.is_suppressed then
            tell("suppressed")
        end
        if placement.opens_window and request.serial then
            open_window(request.serial, now + request.window, placement.id)
        end
        return placement.id, generation, placement.decision
    end
end
