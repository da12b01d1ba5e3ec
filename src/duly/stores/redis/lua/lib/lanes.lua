-- lanes: which of them a worker serves, which are held, and what their limits still allow.

local lanes = {}
do
    local FOREVER = math.huge
    local asked, queues, switches, free, running, starts

    -- Fields of a lane in the order duly.stores.redis.packing sends them; false means absent.
    function lanes.read(ask)
        asked, queues, free, running, starts = {}, ask.queues and {}, ask.free, {}, {}
        lanes.refused = {} -- tasks that may start nothing more in this claim
        for _, lane in ipairs(ask.lanes) do
            asked[lane[1]] = {
                task = lane[1],
                concurrency = lane[2] or nil,
                starts = lane[3] or nil,
                per = lane[4] or nil,
                on_any_queue = lane[5],
                held_by = lane[6],
            }
        end
        for _, name in ipairs(ask.queues or {}) do
            queues[name] = true
        end
    end

    function lanes.is_served(task, queue)
        local lane = asked[task]
        return lane ~= nil and (not queues or queues[queue] or lane.on_any_queue)
    end

    local function read_switches()
        switches = {}
        local found = call("HGETALL", prefix .. "switches")
        for place = 1, #found, 2 do
            local _, closes_at = cmsgpack.unpack(found[place + 1])
            if not closes_at or closes_at > now then
                switches[found[place]] = closes_at or FOREVER
            end
        end
    end

    -- Nil when the lane moves; else until when it is held, and whether that is for good.
    function lanes.held_until(lane)
        if not switches then
            read_switches()
        end
        if not next(switches) then
            return nil
        end
        local closes_at = switches["queue:" .. lane.queue] or switches["task:" .. lane.task]
        for _, task in ipairs(asked[lane.task].held_by) do
            closes_at = closes_at or switches["task:" .. task]
        end
        return closes_at, closes_at == FOREVER
    end

    -- How many jobs of the task are on loan, over all workers.
    local function running_of(task)
        running[task] = running[task] or tonumber(call("HGET", prefix .. "tally", "@" .. task) or 0)
        return running[task]
    end

    -- The starts that count for a rate now; older ones are forgotten.
    local function starts_of(lane)
        local counted = starts[lane.task]
        if not counted then
            counted = { has_changed = false }
            for _, at in ipairs(call("LRANGE", prefix .. "starts:" .. lane.task, 0, -1)) do
                if tonumber(at) > now - lane.per then
                    counted[#counted + 1] = tonumber(at)
                else
                    counted.has_changed = true
                end
            end
            starts[lane.task] = counted
        end
        return counted
    end

    -- In the order of time: an earlier start is a later one if the clock was set back between them.
    local function add_start(counted)
        local place = #counted + 1
        while place > 1 and counted[place - 1] > now do
            place = place - 1
        end
        table.insert(counted, place, now)
        counted.has_changed = true
    end

    -- Nil when the rate allows a start now, else the moment it will.
    function lanes.opens_at(task)
        local lane = asked[task]
        if not lane.starts then
            return nil
        end
        local counted = starts_of(lane)
        return #counted >= lane.starts and counted[#counted - lane.starts + 1] + lane.per or nil
    end

    function lanes.is_limited(task)
        local lane = asked[task]
        return lane.concurrency ~= nil or lane.starts ~= nil
    end

    -- Use up one start, if there is one. Lanes with a limit draw only on slots that start at once.
    function lanes.take_room(task)
        local lane = asked[task]
        if not lanes.is_limited(task) then
            return true
        end
        local is_full = lane.concurrency and running_of(task) >= lane.concurrency
        if free < 1 or is_full or lanes.opens_at(task) then
            return false
        end
        free = free - 1
        running[task] = running_of(task) + 1
        if lane.starts then
            add_start(starts_of(lane))
        end
        return true
    end

    -- A list of starts outlives its window by an hour at most, whatever becomes of the task.
    function lanes.write_starts()
        for task, counted in pairs(starts) do
            if counted.has_changed then
                local name, shown = "starts:" .. task, {}
                for place, at in ipairs(counted) do
                    shown[place] = whole(at)
                end
                call("DEL", prefix .. name)
                pending.send("RPUSH", name, shown)
                call("PEXPIRE", prefix .. name, whole(asked[task].per / 1000 + 3600000))
            end
        end
    end
end
