-- handful: the short way of a claim, for what an idle worker finds most often: a few plain jobs of one lane, or nothing;
-- and nothing to settle, take back, expire, hold or count for a limit. It writes what lending and plain write, spelled
-- out: to build the parts that a whole claim stands on takes the server longer than all that is done here.
-- Everything is looked at before the first write. Whatever is not plain is left to the whole claim, which follows.

local handful = {}
do
    local MOST, LANES = 16, 50 -- jobs that are lent, lanes that are looked at
    local HEAD, SOON = 10, 10000 -- as in plain and in openings

    -- The end of the worker's lease; nil if it has none, was too slow, or if there is a move, a pause or anything to clear up.
    local function lease_for(ask, holders)
        local presence = call("HGET", prefix .. "workers", ask.worker)
        if not presence or call("EXISTS", prefix .. "house", prefix .. "switches") > 0 then
            return nil
        end
        local lease_until, _, _, _, disowned_at = cmsgpack.unpack(presence)
        local is_fit = lease_until > boot and not (disowned_at and ask.asked <= disowned_at)
        local is_anybody_gone = ask.takes_over and holders[2] and tonumber(holders[2]) <= boot
        local is_clear = is_fit and not is_anybody_gone and call("ZCOUNT", prefix .. "expiries", "-inf", whole(now)) == 0
        return is_clear and lease_until or nil
    end

    -- Tells whether a worker serves a lane, by its name, and what it asks of it.
    local function reader_of(ask)
        local asked, queues = {}, {}
        for _, lane in ipairs(ask.lanes) do
            asked[lane[1]] = lane
        end
        for _, queue in ipairs(ask.queues or {}) do
            queues[queue] = true
        end
        return function(name)
            local _, last, length = name:find("^-?%d+:(%d+):")
            local task, queue = name:sub(last + 1, last + length), name:sub(last + length + 1)
            local lane = asked[task]
            local is_served = lane and (not ask.queues or queues[queue] or lane[5])
            return is_served and { name = name, task = task, queue = queue, is_limited = lane[2] or lane[3] }
        end
    end

    -- Whether the short way will do; the one lane with something ready, if any; and when the next one has something.
    local function look_at_lanes(ask)
        local read, ready = reader_of(ask), nil
        local found = call("ZRANGE", prefix .. "lanes", 0, LANES - 1, "WITHSCORES")
        for place = 1, #found, 2 do
            local lane, due = read(found[place]), tonumber(found[place + 1])
            if lane and due > now then
                return true, ready, due
            elseif lane and (ready or lane.is_limited) then
                return false
            end
            ready = lane or ready
        end
        return #found < 2 * LANES, ready
    end

    -- What is ready at the head of a lane, and the score of the one behind; nil if it is more than a handful.
    local function head_of(lane, limit)
        local heads, ids = call("ZRANGE", prefix .. "ready:" .. lane.name, 0, MOST, "WITHSCORES"), {}
        for place = 1, math.min(#heads / 2, limit) do
            if tonumber(heads[2 * place]) > now then
                break
            end
            ids[place] = heads[2 * place - 1]:sub(17)
        end
        if ids[1] and #ids <= MOST then
            return ids, heads[2 * #ids + 2]
        end
    end

    -- Ids and texts of the jobs as they will be, and the claims in pieces without their bodies; nil if one is not plain.
    local function lend(ask, lane, ids)
        local states, pieces = {}, {}
        local introduced = "[" .. json(lane.task) .. "," .. json(lane.queue) .. ","
        for place, text in ipairs(call("HMGET", prefix .. "state", unpack(ids))) do
            local tail, state, flags, name, keep_done, epoch, lines, reason, _
            if text then
                tail, state, flags, name, keep_done, epoch, lines, _, _, _, reason = cmsgpack.unpack_limit(text, HEAD)
            end
            if state ~= "waiting" or flags ~= 0 then
                return nil
            end
            local _, _, shown, due, generation = cmsgpack.unpack_limit(text, 5, tail)
            states[2 * place - 1] = ids[place]
            states[2 * place] = cmsgpack.pack("running", 0, name, keep_done, epoch + 1, lines, nil, ask.nonce, ask.worker,
                reason) .. text:sub(tail + 1)
            pieces[2 * place - 1] = introduced .. shown .. format(",%d],[", epoch + 1) .. json(ids[place])
                .. format(",%d,%d,", generation, due)
        end
        return states, pieces
    end

    local function tally(field, by)
        if call("HINCRBY", prefix .. "tally", field, by) <= 0 then
            call("HDEL", prefix .. "tally", field)
        end
    end

    -- The first write takes something away: so it is let through when memory is full, and with it the others.
    local function write(ask, lane, ids, states, lease_until, behind)
        local group, count = format("%d:", #lane.task) .. lane.task .. lane.queue, #ids
        call("ZREMRANGEBYRANK", prefix .. "ready:" .. lane.name, 0, count - 1)
        call("HSET", prefix .. "state", unpack(states))
        call("SADD", prefix .. "held:" .. ask.worker, unpack(ids))
        call("ZADD", prefix .. "holders", format("%d", lease_until), ask.worker)
        tally("waiting:" .. group, -count)
        tally("running:" .. group, count)
        tally("@" .. lane.task, count)
        if behind then
            call("ZADD", prefix .. "lanes", behind, lane.name)
        else
            call("ZREM", prefix .. "lanes", lane.name)
        end
    end

    local function with_bodies(pieces, ids)
        for place, body in ipairs(call("HMGET", prefix .. "body", unpack(ids))) do
            pieces[2 * place] = (body or '"",""') .. (ids[place + 1] and "]," or "]")
        end
        return concat(pieces)
    end

    -- The earliest of what is to come: in this lane, in the others, or when another worker's lease ends.
    local function opening(worker, behind, others, holders)
        local moment = math.min(tonumber(behind) or math.huge, others or math.huge)
        local lease = holders[1] ~= worker and holders[2] or holders[4]
        if lease then
            moment = math.min(moment, math.max(now + lease - boot, now + SOON))
        end
        return moment < math.huge and whole(moment) or "null"
    end

    -- As lending.claim answers it; nil if that is to be asked.
    function handful.claim(ask)
        local holders = call("ZRANGE", prefix .. "holders", 0, 1, "WITHSCORES")
        local lease_until = lease_for(ask, holders)
        if ask.limit < 1 or not lease_until then
            return nil
        end
        local will_do, lane, others = look_at_lanes(ask)
        local ids, behind, states, pieces, lent
        if will_do and lane then
            ids, behind = head_of(lane, ask.limit)
            if ids then
                states, pieces = lend(ask, lane, ids)
            end
        end
        if not will_do or (lane and not states) then
            return nil
        elseif lane then
            write(ask, lane, ids, states, lease_until, behind)
            lent = with_bodies(pieces, ids)
        end
        local is_full = ids and #ids == ask.limit
        local moment = is_full and whole(now) or opening(ask.worker, behind, others, holders)
        return "[[" .. (lent or "") .. "]," .. moment .. "," .. whole(now) .. "," .. (lane and #ids or 0) .. "]"
    end
end

if not (given.ends and given.ends[1]) then
    local claimed = handful.claim(given.ask or given)
    if claimed then
        return (given.ask and "[[]," or "[") .. claimed .. "]"
    end
end
