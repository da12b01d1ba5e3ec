-- lending: never two valid leases on one job, never one that is not yet due. Whole lanes are skipped or
-- read from their head, so the cost of a claim follows what it lends and not what waits.

local lending = { count = 0 }
do
    local SLACK = 16 -- rows read per lane beyond its share, so that an uneven backlog rarely needs another look

    local ask
    local ids, lent_from, middles, tails, rows = {}, {}, {}, {}, {} -- what is lent: claims as text, or rows

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
        local shown, tail, ready_at, generation = plain.lend(id, lane, ask.worker, ask.nonce)
        if shown then
            lending.record(id, lane, ready_at, generation)
            lent_from[lending.count], middles[lending.count], tails[lending.count] = lane.introduced, shown, tail
        end
        return shown ~= nil
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
        for _, stream in ipairs(streams) do
            stream.is_alone = rivals == 1
        end
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

    -- In pieces that are joined once for all claims: each longer text on the way would be hashed and kept.
    local function show_claim(pieces, at, place, body)
        local row = rows[place]
        pieces[at + 1], pieces[at + 2] = at == 0 and "[" or ",[", json(ids[place])
        pieces[at + 3] = row and naming.lane_named(row.lane).introduced or lent_from[place]
        pieces[at + 4], pieces[at + 5], pieces[at + 6] = row and row.shown or middles[place], ",", body
        pieces[at + 7] = row and format(",%d,%d]", row.epoch, row.generation) or tails[place]
        return at + 7
    end

    local function show_claims()
        local pieces, at = {}, 0
        for first = 1, lending.count, PORTION do
            local last = math.min(first + PORTION - 1, lending.count)
            local bodies = call("HMGET", prefix .. "body", unpack(ids, first, last))
            for place = first, last do
                -- A body deleted by hand: such arguments fail the run.
                at = show_claim(pieces, at, place, bodies[place - first + 1] or '"",""')
            end
        end
        return "[" .. concat(pieces) .. "]"
    end

    -- The claims, when asking again may find more, and the time, as JSON.
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
        if not has_more and lending.count < ask.limit then
            moment = openings.next_for(ask.worker)
        end
        lanes.write_starts()
        return "[" .. show_claims() .. "," .. show(moment) .. "," .. whole(now) .. "]"
    end
end
