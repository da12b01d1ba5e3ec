-- lanes: which of them a worker serves, which are held, and what their limits still allow.

local FOREVER = math.huge
local ask, lanes_asked, queues_asked, room, switches
local read_ask, is_served, read_switches, held_until, opens_at, is_limited, take_room, write_starts
do
    -- Fields of a lane in the order duly.stores.redis.packing sends them; false means absent.
    function read_ask(values)
        ask, lanes_asked, queues_asked = values, {}, values.queues and {}
        for _, lane in ipairs(values.lanes) do
            lanes_asked[lane[1]] = {
                task = lane[1],
                concurrency = lane[2] or nil,
                starts = lane[3] or nil,
                per = lane[4] or nil,
                on_any_queue = lane[5],
                held_by = lane[6],
            }
        end
        for _, name in ipairs(values.queues or {}) do
            queues_asked[name] = true
        end
        room = { free = values.free, running = {}, starts = {}, refused = {} }
    end

    function is_served(task, queue_name)
        local lane = lanes_asked[task]
        return lane ~= nil and (not queues_asked or queues_asked[queue_name] or lane.on_any_queue)
    end

    function read_switches()
        switches = {}
        local found = call("HGETALL", prefix .. "switches")
        for place = 1, #found, 2 do
            local _, closes_at = cmsgpack.unpack(found[place + 1])
            switches[found[place]] = closes_at or FOREVER
        end
    end

    local function switch_on(scope, name)
        local closes_at = switches[scope .. ":" .. name]
        return closes_at and closes_at > now and closes_at or nil
    end

    -- Nil when the lane moves; else until when it is held.
    function held_until(lane)
        if not next(switches) then
            return nil
        end
        local closes_at = switch_on("queue", lane.queue) or switch_on("task", lane.task)
        for _, task in ipairs(lanes_asked[lane.task].held_by) do
            closes_at = closes_at or switch_on("task", task)
        end
        return closes_at
    end

    -- How many jobs of the task are on loan, over all workers.
    local function running_of(task)
        if not room.running[task] then
            room.running[task] = tonumber(call("HGET", prefix .. "tally", "@" .. task) or 0)
        end
        return room.running[task]
    end

    -- The starts that count for a rate now; older ones are forgotten.
    local function starts_of(asked)
        local starts = room.starts[asked.task]
        if not starts then
            starts = { has_changed = false }
            for _, at in ipairs(call("LRANGE", prefix .. "starts:" .. asked.task, 0, -1)) do
                if tonumber(at) > now - asked.per then
                    starts[#starts + 1] = tonumber(at)
                else
                    starts.has_changed = true
                end
            end
            room.starts[asked.task] = starts
        end
        return starts
    end

    -- Nil when the rate allows a start now, else the moment it will.
    function opens_at(asked)
        if not asked.starts then
            return nil
        end
        local starts = starts_of(asked)
        return #starts >= asked.starts and starts[#starts - asked.starts + 1] + asked.per or nil
    end

    local function is_full(asked)
        return asked.concurrency ~= nil and running_of(asked.task) >= asked.concurrency
    end

    function is_limited(task)
        local asked = lanes_asked[task]
        return asked.concurrency ~= nil or asked.starts ~= nil
    end

    -- Use up one start, if there is one. Lanes with a limit draw only on slots that start at once.
    function take_room(task)
        local asked = lanes_asked[task]
        if not (asked.concurrency or asked.starts) then
            return true
        end
        if room.free < 1 or is_full(asked) or opens_at(asked) then
            return false
        end
        room.free = room.free - 1
        room.running[task] = running_of(task) + 1
        if asked.starts then
            local starts = starts_of(asked)
            starts[#starts + 1] = now
            starts.has_changed = true
        end
        return true
    end

    -- A list of starts outlives its window by an hour at most, whatever becomes of the task.
    function write_starts()
        for task, starts in pairs(room.starts) do
            if starts.has_changed then
                local name, texts = "starts:" .. task, {}
                for place, at in ipairs(starts) do
                    texts[place] = whole(at)
                end
                call("DEL", prefix .. name)
                send("RPUSH", name, texts)
                call("PEXPIRE", prefix .. name, whole(lanes_asked[task].per / 1000 + 3600000))
            end
        end
    end
end
