-- lending: never two valid leases on one job, never one that is not yet due. Whole lanes are skipped or
-- read from their head, so the cost of a claim follows what it lends and not what waits.

local claim
do
    local SOON = 10000 -- a lease that has run out is looked at again after ten milliseconds, not at once
    local SLACK = 16 -- rows read per lane beyond its share, so that an uneven backlog rarely needs a second reading

    local lent, ids = 0, {}
    local last_priority, last_ready_at, last_generation -- where the last one stood in the order of lending
    local heads_shown, tails_shown, rows_lent = {}, {}, {} -- claims as text around the body, or still as rows
    local places = {} -- where each stood that has a serial

    -- A worker that claims has a lease, even before its first beat; a lease in force is left alone.
    local function hold_lease()
        local presence = presence_of(ask.worker)
        if not presence then
            presence = { lease_until = 0, seen_at = now, host = "", card = ask.card }
            be_present(ask.worker, presence)
        end
        if presence.lease_until <= boot then
            presence.lease_until = boot + ask.lease
            be_present(ask.worker, presence)
        end
    end

    -- --- reading lanes in order -----------------------------------------------------------------------

    -- The next jobs of a lane that are ready now. `share` is how many are likely to be wanted.
    local function read_more(stream, share)
        if stream.is_over then
            return
        end
        local found = call("ZRANGEBYSCORE", prefix .. stream.lane.ready, "-inf", now, "WITHSCORES", "LIMIT", stream.read, share)
        local wanted, count = {}, 0
        stream.at = 1
        for place = 1, #found, 2 do
            count = count + 1
            stream.members[count] = found[place]
            stream.scores[count] = found[place + 1]
            wanted[count] = denumbered(found[place])
        end
        stream.members[count + 1] = nil
        stream.read = stream.read + count
        stream.is_over = count < share
        load(wanted)
    end

    local function is_exhausted(stream, share)
        if room.refused[stream.lane.task] then
            return true
        end
        if not stream.members[stream.at] then
            read_more(stream, share)
        end
        return not stream.members[stream.at]
    end

    -- Of lanes with one priority, the one whose head has been ready longest.
    local function first_of(streams, share)
        local first
        for place = #streams, 1, -1 do
            local stream = streams[place]
            if is_exhausted(stream, share) then
                table.remove(streams, place)
            elseif not first then
                first = stream
            else
                local score, other = tonumber(stream.scores[stream.at]), tonumber(first.scores[first.at])
                if score < other or (score == other and stream.members[stream.at] < first.members[first.at]) then
                    first = stream
                end
            end
        end
        return first
    end

    -- --- lending ----------------------------------------------------------------------------------------

    local function must_park(row)
        if not row.is_keyed then
            return false
        end
        local rest = open(row)
        return rest.serial and rest.per_key > 0 and #view_of(rest.serial).r >= rest.per_key
    end

    local function lend(row)
        if row.has_orders then
            local rest = open(row)
            rest.wish = rest.wish ~= "hurry" and rest.wish or nil
        end
        row.state = "running"
        row.epoch = row.epoch + 1
        row.nonce = ask.nonce -- one secret for the whole claim: a fence names the job beside it
        row.worker = ask.worker
        row.has_begun, row.began_isolated = false, false -- an operator's retry may bring back what had begun
        forget_progress(row)
        index(row)
    end

    local function record(id, lane, ready_at, generation)
        lent = lent + 1
        ids[lent] = id
        last_priority, last_ready_at, last_generation = lane.priority, ready_at, generation
    end

    -- Lend a job that has no say in it; answers whether it was one.
    local function lend_at_once(id, lane)
        local head, tail, ready_at, generation = lend_plain(id, lane, ask.worker, ask.nonce)
        if head then
            record(id, lane, ready_at, generation)
            heads_shown[lent], tails_shown[lent] = head, tail
        end
        return head ~= nil
    end

    local function place_of(row, lane)
        local serial = open(row).serial
        return { priority = lane.priority, ready_at = row.ready_at, generation = row.generation, serial = serial }
    end

    local function lend_row(row, lane)
        record(row.id, lane, row.ready_at, row.generation)
        rows_lent[lent] = row
        if row.is_keyed and open(row).serial then
            places[#places + 1] = place_of(row, lane)
        end
        lend(row)
    end

    -- Whether the head of a lane has left the ready set: lent, parked, expired, or never rightly there.
    local function has_left(id, lane)
        local row = row_of(id)
        if not row or row.state ~= "waiting" or row.is_parked then
            return true
        end
        row.is_taken = true
        if row.has_expiry and open(row).expires_at <= now then
            finish(row, "expire", "expired")
        elseif must_park(row) then
            row.is_parked = true
            index(row)
        elseif take_room(lane.task) then
            lend_row(row, lane)
        else
            row.is_taken = nil
            return false
        end
        return true
    end

    local function consider(stream)
        local lane = stream.lane
        local id = denumbered(stream.members[stream.at])
        stream.at = stream.at + 1
        if (is_limited(lane.task) or not lend_at_once(id, lane)) and not has_left(id, lane) then
            room.refused[lane.task] = true
            return
        end
        -- All before the first refusal have left, so what goes is always the head of the lane.
        if not popped[lane.ready] then
            popped[lane.ready] = 0
            kept(heads, "lanes")[lane.name] = lane.ready
        end
        popped[lane.ready] = popped[lane.ready] + 1
    end

    local function lend_from(streams)
        while lent < ask.limit do
            local wanted = ask.limit - lent
            local share = #streams <= 1 and wanted or math.ceil(wanted / #streams) + SLACK
            local stream = first_of(streams, share)
            if not stream then
                return
            end
            consider(stream)
        end
    end

    local function ready_streams()
        local by_priority, priorities = {}, {}
        for _, name in ipairs(call("ZRANGEBYSCORE", prefix .. "lanes", "-inf", now)) do
            local lane = lane_named(name)
            if is_served(lane.task, lane.queue) and not held_until(lane) then
                if not by_priority[lane.priority] then
                    by_priority[lane.priority] = {}
                    priorities[#priorities + 1] = lane.priority
                end
                local streams = by_priority[lane.priority]
                streams[#streams + 1] = { lane = lane, members = {}, scores = {}, at = 1, read = 0 }
            end
        end
        table.sort(priorities, function(one, other)
            return one > other
        end)
        return by_priority, priorities
    end

    local function lend_all()
        local by_priority, priorities = ready_streams()
        for _, priority in ipairs(priorities) do
            lend_from(by_priority[priority])
        end
    end

    -- --- jobs behind a run, in lanes that may start nothing ----------------------------------------------

    local function is_later(one, other)
        if one.priority ~= other.priority then
            return one.priority < other.priority
        elseif one.ready_at ~= other.ready_at then
            return one.ready_at > other.ready_at
        end
        return one.generation > other.generation
    end

    -- As it was when this claim would have come to it: later loans did not count yet, and a full claim stops.
    local function is_behind(place, runs, per_key)
        local last = { priority = last_priority, ready_at = last_ready_at, generation = last_generation }
        if lent >= ask.limit and (lent == 0 or is_later(place, last)) then
            return false
        end
        for _, other in ipairs(places) do
            if other.serial == place.serial and is_later(other, place) then
                runs = runs - 1
            end
        end
        return runs >= per_key
    end

    local function park_behind_runs(serial)
        local view = view_of(serial)
        for _, row in ipairs(rows_in(serial, view.w)) do
            local rest, lane = open(row), lane_named(row.lane)
            local is_candidate = room.refused[lane.task] and is_served(lane.task, lane.queue) and not held_until(lane)
            local is_due = is_candidate and row.ready_at <= now and rest.per_key > 0
            if is_due and is_behind(place_of(row, lane), #view.r, rest.per_key) then
                row.is_parked = true
                index(row)
            end
        end
        if #view.w == 0 or #view.r == 0 then
            belong("tight", serial, false)
        end
    end

    -- They leave the ready set though their lane is full. They are found from the runs, so no backlog is walked.
    local function park_refused()
        if not next(room.refused) then
            return
        end
        flush()
        for _, serial in ipairs(call("SMEMBERS", prefix .. "tight")) do
            park_behind_runs(serial)
        end
    end

    -- --- when to ask again ----------------------------------------------------------------------------------

    local function earlier(one, other)
        if not one or not other then
            return one or other
        end
        return math.min(one, other)
    end

    -- A lane with something ready now that was not lent: the end of its hold, the next start its rate allows,
    -- or the next job that becomes due in it.
    local function opening_of(lane)
        local closes_at = held_until(lane)
        if closes_at then
            return closes_at ~= FOREVER and closes_at or nil
        end
        local later = call("ZRANGEBYSCORE", prefix .. lane.ready, "(" .. whole(now), "+inf", "WITHSCORES", "LIMIT", 0, 1)
        return earlier(opens_at(lanes_asked[lane.task]), tonumber(later[2]))
    end

    local function ready_opening()
        local moment
        for _, name in ipairs(call("ZRANGEBYSCORE", prefix .. "lanes", "-inf", now)) do
            local lane = lane_named(name)
            if is_served(lane.task, lane.queue) then
                moment = earlier(moment, opening_of(lane))
            end
        end
        return moment
    end

    -- The first due time of the lanes with nothing ready. The index is in that order: the first that moves is it.
    local function later_opening()
        local moment
        local first = 0
        while true do
            local found = call("ZRANGEBYSCORE", prefix .. "lanes", "(" .. whole(now), "+inf", "WITHSCORES", "LIMIT", first, 50)
            for place = 1, #found, 2 do
                local lane, due = lane_named(found[place]), tonumber(found[place + 1])
                if is_served(lane.task, lane.queue) then
                    local closes_at = held_until(lane)
                    if not closes_at then
                        return earlier(moment, due)
                    elseif closes_at ~= FOREVER then
                        moment = earlier(moment, math.max(closes_at, due))
                    end
                end
            end
            if #found < 100 then
                return moment
            end
            first = first + 50
        end
    end

    -- When another worker's lease ends, its jobs may be had.
    local function lease_opening()
        local found = call("ZRANGE", prefix .. "holders", 0, 1, "WITHSCORES")
        for place = 1, #found, 2 do
            if found[place] ~= ask.worker then
                return math.max(now + tonumber(found[place + 1]) - boot, now + SOON)
            end
        end
        return nil
    end

    local function next_at(has_more)
        if has_more or lent >= ask.limit then
            return now
        end
        return earlier(earlier(ready_opening(), later_opening()), lease_opening())
    end

    -- --- the whole claim ---------------------------------------------------------------------------------------

    local function show_claim(place, body)
        local row = rows_lent[place]
        if not row then
            return heads_shown[place] .. body .. tails_shown[place]
        end
        local head = "[" .. json(row.id) .. "," .. lane_named(row.lane).shown .. "," .. row.shown .. ","
        return head .. body .. format(",%d,%.0f]", row.epoch, row.generation)
    end

    local function show_claims()
        local shown = {}
        for first = 1, lent, PORTION do
            local last = math.min(first + PORTION - 1, lent)
            local bodies = call("HMGET", prefix .. "body", unpack(ids, first, last))
            for place = first, last do
                -- A body deleted by hand: such arguments fail the run.
                shown[place] = show_claim(place, bodies[place - first + 1] or '"",""')
            end
        end
        return "[" .. concat(shown, ",") .. "]"
    end

    function claim(values)
        read_ask(values)
        hold_lease()
        if ask.takes_over then
            recover()
        end
        local has_more = expire(is_served)
        flush()
        read_switches()
        lend_all()
        park_refused()
        flush()
        local moment = next_at(has_more)
        write_starts()
        return "[" .. show_claims() .. "," .. show(moment) .. "," .. whole(now) .. "]"
    end
end
