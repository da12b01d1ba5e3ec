-- openings: the earliest moment at which asking again may find more, as far as can be known now.

local openings = {}
do
    local SOON = 10000 -- a lease that has run out is looked at again after ten milliseconds, not at once
    local AT_ONCE = 50
    local later = "(" .. whole(now)

    local function earlier(one, other)
        if not one or not other then
            return one or other
        end
        return math.min(one, other)
    end

    -- A lane with something ready now that was not lent: the end of its hold, the next start its rate
    -- allows, or the next job that becomes due in it.
    local function opening_of(lane)
        local closes_at, is_for_good = lanes.held_until(lane)
        if closes_at then
            return not is_for_good and closes_at or nil
        end
        local due = call("ZRANGEBYSCORE", prefix .. lane.ready, later, "+inf", "WITHSCORES", "LIMIT", 0, 1)
        return earlier(lanes.opens_at(lane.task), tonumber(due[2]))
    end

    local function of_ready_lanes()
        local moment
        for _, name in ipairs(call("ZRANGEBYSCORE", prefix .. "lanes", "-inf", now)) do
            local lane = naming.lane_named(name)
            if lanes.is_served(lane.task, lane.queue) then
                moment = earlier(moment, opening_of(lane))
            end
        end
        return moment
    end

    -- Of lanes with nothing ready the first due time; they come in its order, so the first that moves is it.
    local function of_later_lanes()
        local moment
        for first = 0, math.huge, AT_ONCE do
            local found = call("ZRANGEBYSCORE", prefix .. "lanes", later, "+inf", "WITHSCORES", "LIMIT", first, AT_ONCE)
            for place = 1, #found, 2 do
                local lane, due = naming.lane_named(found[place]), tonumber(found[place + 1])
                if lanes.is_served(lane.task, lane.queue) then
                    local closes_at, is_for_good = lanes.held_until(lane)
                    if not closes_at then
                        return earlier(moment, due)
                    elseif not is_for_good then
                        moment = earlier(moment, math.max(closes_at, due))
                    end
                end
            end
            if #found < 2 * AT_ONCE then
                return moment
            end
        end
    end

    -- When another worker's lease ends, its jobs may be had.
    local function of_leases(worker)
        local found = call("ZRANGE", prefix .. "holders", 0, 1, "WITHSCORES")
        for place = 1, #found, 2 do
            if found[place] ~= worker then
                return math.max(now + tonumber(found[place + 1]) - boot, now + SOON)
            end
        end
        return nil
    end

    function openings.next_for(worker)
        return earlier(earlier(of_ready_lanes(), of_later_lanes()), of_leases(worker))
    end
end
