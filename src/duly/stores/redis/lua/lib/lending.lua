-- lending: never two valid leases on one job, never one that is not yet due. Whole lanes are skipped or
-- read from their head, so the cost of a claim follows what it lends and not what waits.

local lending = { count = 0 }
do
    local SLACK = 16 -- rows read per lane beyond its share, so that an uneven backlog rarely needs another look

    local ask
    local ids, heads, tails, rows = {}, {}, {}, {} -- what is lent: claims as text around the body, or rows

    -- A worker that claims has a lease, even before its first beat; a lease in force is left alone.
    local function hold_lease()
        local presence = workers.presence_of(ask.worker)
        if not presence or presence.lease_until <= boot then
            presence = presence or { seen_at = now, host = "", card = ask.card }
            presence.lease_until = boot + ask.lease
            workers.be_present(ask.worker, presence)
        end
    end

    -- Before anything is lent: what workers lost who are gone becomes ready, and what is too late ends.
    -- Answers whether there is more of that than one claim should carry.
    local function clear_up()
        local has_more = false
        local gone = ask.takes_over and call("ZRANGEBYSCORE", prefix .. "holders", "-inf", boot) or {}
        if gone[1] then
            need("recovery").recover(gone)
        end
        local late = call("ZRANGEBYSCORE", prefix .. "expiries", "-inf", now)
        if late[1] then
            has_more = need("expiry").expire(late)
        end
        return has_more
    end

    -- The next jobs of a lane that are ready now. `share` is how many are likely to be wanted.
    local function read_more(stream, share)
        local found = call("ZRANGEBYSCORE", prefix .. stream.lane.ready, "-inf", now, "WITHSCORES", "LIMIT", stream.read, share)
        local members, scores, wanted, count = {}, {}, {}, 0
        for place = 1, #found, 2 do
            count = count + 1
            members[count], scores[count] = found[place], found[place + 1]
            wanted[count] = naming.denumbered(found[place])
        end
        stream.members, stream.scores, stream.ids, stream.at = members, scores, wanted, 1
        stream.read = stream.read + count
        stream.is_over = count < share
        stored.load(wanted)
    end

    local function is_exhausted(stream, share)
        if lanes.refused[stream.lane.task] then
            return true
        end
        if not stream.ids[stream.at] and not stream.is_over then
            read_more(stream, share)
        end
        return not stream.ids[stream.at]
    end

    local function is_earlier(one, other)
        local score, other_score = tonumber(one.scores[one.at]), tonumber(other.scores[other.at])
        return score < other_score or (score == other_score and one.members[one.at] < other.members[other.at])
    end

    -- Of lanes with one priority, the one whose head has been ready longest.
    local function first_of(streams, share)
        local first
        for place = #streams, 1, -1 do
            local stream = streams[place]
            if is_exhausted(stream, share) then
                table.remove(streams, place)
            elseif not first or is_earlier(stream, first) then
                first = stream
            end
        end
        return first
    end

    -- One more is lent; where it stood in the order of lending is what later decisions ask for.
    function lending.record(id, lane, ready_at, generation)
        lending.count = lending.count + 1
        lending.priority, lending.ready_at, lending.generation = lane.priority, ready_at, generation
        ids[lending.count] = id
    end

    function lending.record_row(row, lane)
        lending.record(row.id, lane, row.ready_at, row.generation)
        rows[lending.count] = row
    end

    local function lend_plain(id, lane)
        local head, tail, ready_at, generation = plain.lend(id, lane, ask.worker, ask.nonce)
        if head then
            lending.record(id, lane, ready_at, generation)
            heads[lending.count], tails[lending.count] = head, tail
        end
        return head ~= nil
    end

    -- The head of a lane leaves the ready set, or shows that its task may start nothing more.
    local function consider(stream)
        local lane, id = stream.lane, stream.ids[stream.at]
        stream.at = stream.at + 1
        local is_lent = not lanes.is_limited(lane.task) and lend_plain(id, lane)
        if is_lent or need("candidates").has_left(id, lane, ask) then
            -- All before the first refusal have left, so what goes is always the head of the lane.
            stream.left = stream.left + 1
        else
            lanes.refused[lane.task] = true
        end
    end

    local function lend_from(streams)
        local rivals = #streams
        while lending.count < ask.limit do
            local wanted = ask.limit - lending.count
            local share = rivals == 1 and wanted or math.ceil(wanted / rivals) + SLACK
            local stream = first_of(streams, share)
            if not stream then
                return
            end
            consider(stream)
        end
    end

    -- Lanes with something ready that this worker serves and nobody holds, by priority.
    local function ready_streams()
        local streams, by_priority, priorities = {}, {}, {}
        for _, name in ipairs(call("ZRANGEBYSCORE", prefix .. "lanes", "-inf", now)) do
            local lane = naming.lane_named(name)
            if lanes.is_served(lane.task, lane.queue) and not lanes.held_until(lane) then
                if not by_priority[lane.priority] then
                    by_priority[lane.priority] = {}
                    priorities[#priorities + 1] = lane.priority
                end
                local stream = { lane = lane, ids = {}, at = 1, read = 0, left = 0 }
                streams[#streams + 1] = stream
                table.insert(by_priority[lane.priority], stream)
            end
        end
        table.sort(priorities)
        return streams, by_priority, priorities
    end

    local function lend_all()
        local streams, by_priority, priorities = ready_streams()
        for place = #priorities, 1, -1 do
            lend_from(by_priority[priorities[place]])
        end
        for _, stream in ipairs(streams) do
            if stream.left > 0 then
                pending.pop(stream.lane.ready, stream.left)
                pending.move_head("lanes", stream.lane.name, stream.lane.ready)
            end
        end
    end

    local function show_claim(place, body)
        local row = rows[place]
        if not row then
            return heads[place] .. body .. tails[place]
        end
        local head = "[" .. json(row.id) .. "," .. naming.lane_named(row.lane).shown .. "," .. row.shown .. ","
        return head .. body .. format(",%d,%d]", row.epoch, row.generation)
    end

    local function show_claims()
        local shown = {}
        for first = 1, lending.count, PORTION do
            local last = math.min(first + PORTION - 1, lending.count)
            local bodies = call("HMGET", prefix .. "body", unpack(ids, first, last))
            for place = first, last do
                -- A body deleted by hand: such arguments fail the run.
                shown[place] = show_claim(place, bodies[place - first + 1] or '"",""')
            end
        end
        return "[" .. concat(shown, ",") .. "]"
    end

    -- The claims, when asking again may find more, and the time, as JSON.
    function lending.claim(values)
        ask = values
        if house.stage then
            ask.lanes = {} -- behind a notice nothing is lent, but what the dead held is taken back
        end
        lanes.read(ask)
        hold_lease()
        local has_more = clear_up()
        lend_all()
        if next(lanes.refused) then
            flush()
            need("candidates").park_refused(ask)
        end
        flush()
        local moment = now
        if not has_more and lending.count < ask.limit then
            moment = openings.next_for(ask.worker)
        end
        lanes.write_starts()
        return "[" .. show_claims() .. "," .. show(moment) .. "," .. whole(now) .. "]"
    end
end
