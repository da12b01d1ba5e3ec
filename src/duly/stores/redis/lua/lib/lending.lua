-- lending: never two valid leases on one job, never one that is not yet due. Whole lanes are skipped or
-- read from their head, so the cost of a claim follows what it lends and not what waits.

local lending = {}
do
    local SLACK = 16 -- rows read per lane beyond its share, so that an uneven backlog rarely needs another look

    local ask
    local ids, count = {}, 0 -- what is lent
    local pieces, rows = {}, {} -- claims as text, four pieces each; or rows, of which there is no text yet
    local head, shown -- of the last one
    local last = {} -- where it stood in the order of lending

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

    -- Scores are for comparing lanes: where there is one, the server need not print them.
    local function ready_in(stream, share)
        local name, first = prefix .. stream.lane.ready, stream.read
        if stream.is_alone then
            return call("ZRANGEBYSCORE", name, "-inf", now, "LIMIT", first, share), {}
        end
        local found = call("ZRANGEBYSCORE", name, "-inf", now, "WITHSCORES", "LIMIT", first, share)
        local members, scores = {}, {}
        for place = 1, #found, 2 do
            members[#members + 1], scores[#scores + 1] = found[place], found[place + 1]
        end
        return members, scores
    end

    -- The next jobs of a lane that are ready now. `share` is how many are likely to be wanted.
    local function read_more(stream, share)
        local members, scores = ready_in(stream, share)
        local wanted, count = {}, #members
        for place = 1, count do
            wanted[place] = naming.denumbered(members[place])
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

    -- How many are lent, and where the last of them stood in the order of lending.
    function lending.standing()
        return count, last
    end

    function lending.record_row(row, lane)
        count = count + 1
        ids[count], rows[count], head = row.id, row, nil
        last.priority, last.ready_at, last.generation = lane.priority, row.ready_at, row.generation
    end

    -- What the claim at this place and some that follow it have in common.
    local function open_group(lane, in_common, epoch, place)
        place = place or count
        local before = place == 1 and "[" or "],["
        pieces[4 * place - 3] = before .. lane.introduced .. in_common .. format(",%d],[", epoch)
    end

    local function lend_plain(id, lane)
        local its_head, its_shown, due, generation, ready_at = plain.lend(id, lane, ask.worker, ask.nonce)
        if not its_head then
            return false
        end
        count = count + 1
        ids[count] = id
        local at = 4 * count
        if its_head == head and its_shown == shown then
            pieces[at - 3] = ","
        else
            head, shown = its_head, its_shown
            open_group(lane, shown, head.epoch)
        end
        pieces[at - 2], pieces[at - 1] = json(id), format(",%d,%d,", generation, due)
        last.priority, last.ready_at, last.generation = lane.priority, ready_at, generation
        return true
    end

    -- The head of a lane leaves the ready set, or shows that its task may start nothing more.
    local function consider(stream)
        local lane, id = stream.lane, stream.ids[stream.at]
        stream.at = stream.at + 1
        local is_lent = not stream.is_limited and lend_plain(id, lane)
        if is_lent or need("candidates").has_left(id, lane, ask) then
            -- All before the first refusal have left, so what goes is always the head of the lane.
            stream.left = stream.left + 1
        else
            lanes.refused[lane.task] = true
        end
    end

    local function lend_alone(stream)
        while count < ask.limit and not is_exhausted(stream, ask.limit - count) do
            consider(stream)
        end
    end

    local function lend_from(streams)
        local rivals = #streams
        for _, stream in ipairs(streams) do
            stream.is_alone, stream.is_limited = rivals == 1, lanes.is_limited(stream.lane.task)
        end
        if rivals == 1 then -- most often; which of them is first took a tenth of a claim to find out
            lend_alone(streams[1])
            return
        end
        while count < ask.limit do
            local wanted = ask.limit - count
            local share = math.ceil(wanted / rivals) + SLACK
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

    -- Only now is it known what became of it.
    local function show_row(row, place)
        open_group(naming.lane_named(row.lane), row.shown, row.epoch, place)
        pieces[4 * place - 2], pieces[4 * place - 1] = json(row.id), format(",%d,%d,", row.generation, row.due)
    end

    -- In turn: what some that follow each other have in common, and id, generation, due and body of each. The pieces
    -- are joined once for all claims: each longer text on the way would be hashed and kept.
    local function show_claims()
        for place, row in pairs(rows) do
            show_row(row, place)
        end
        for first = 1, count, PORTION do
            local final = math.min(first + PORTION - 1, count)
            local bodies = call("HMGET", prefix .. "body", unpack(ids, first, final))
            for place = first, final do
                -- A body deleted by hand: such arguments fail the run.
                pieces[4 * place] = bodies[place - first + 1] or '"",""'
            end
        end
        return "[" .. concat(pieces) .. (count > 0 and "]]" or "]")
    end

    -- The claims, when asking again may find more, the time, and how many claims there are, as JSON.
    function lending.claim(values)
        ask = values
        if house.stage or workers.has_disowned(ask.worker, ask.asked) then
            ask.lanes = {} -- nothing is lent, but what the dead held is taken back
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
        if not has_more and count < ask.limit then
            moment = openings.next_for(ask.worker)
        end
        lanes.write_starts()
        return "[" .. show_claims() .. "," .. show(moment) .. "," .. whole(now) .. "," .. count .. "]"
    end
end
