-- plain: the straight way for jobs about which there is nothing to decide: no key, no expiry, no order, no
-- failure yet. Creating, lending and finishing one writes exactly what rows and index would write, without
-- making a table of it: three times as many jobs in the same time. Whatever is not plain is refused here.

local create_plain, lend_plain, finish_plain, flush_plain
do
    local states, bodies, everything, left, forgotten = {}, {}, {}, {}, {}
    local ready, lent, released = {}, {}, {} -- by lane, by worker
    local counts = {}

    local function count(lane, state, by)
        local by_state = counts[lane] or kept(counts, lane)
        by_state[state] = (by_state[state] or 0) + by
    end

    local function keep(id, text)
        texts[id] = text
        local place = #states
        states[place + 1], states[place + 2] = id, text
    end

    local function is_plain(request)
        return not (request.key or request.serial or request.expires_after) and request.delivery ~= "at_most_once"
    end

    -- Answers the generation of the new job, or nil if it takes more than this.
    function create_plain(request, due)
        if not is_plain(request) then
            return nil
        end
        local id, generation = request.id, count_up()
        local lane = lane_of(request.task, request.queue, request.priority)
        local tick = request.tick
        local shown = "null,0,0,0,0,false," .. whole(due) .. "," .. (tick and whole(tick) or "null") .. ",null"
        local rest = cmsgpack.pack(0, 0, 0, due, nil, nil, nil, now, nil, nil, nil, request.overlap, request.per_key,
            request.perpetual, request.keep_failed, tick, request.delivery)
        keep(id, cmsgpack.pack("waiting", 0, generation, generation, 0, 0, 0, due, nil, request.keep_done, NOBODYS,
            "", lane.name, "", shown, nil, rest))
        local queued = ready[lane] or kept(ready, lane)
        local place, twice = #queued, #bodies
        queued[place + 1], queued[place + 2] = due, numbered(generation, id)
        bodies[twice + 1], bodies[twice + 2] = id, request.body
        everything[twice + 1], everything[twice + 2] = generation, id
        count(lane, "waiting", 1)
        is_ready = true
        return generation
    end

    -- Answers the claim as text before and after the body of the job, its due place and its generation.
    function lend_plain(id, lane, worker, secret)
        if rows[id] or not texts[id] then
            return nil
        end
        local state, flags, generation, born, epoch, lines, attempt, ready_at, _, keep_done, _, _, name, reason, shown, story, rest =
            cmsgpack.unpack(texts[id])
        if flags ~= 0 or state ~= "waiting" then
            return nil
        end
        epoch = epoch + 1
        keep(id, cmsgpack.pack("running", 0, generation, born, epoch, lines, attempt, ready_at, nil, keep_done, secret,
            worker, name, reason, shown, story, rest))
        local held = lent[worker] or kept(lent, worker)
        held[#held + 1] = id
        count(lane, "waiting", -1)
        count(lane, "running", 1)
        local head = "[" .. json(id) .. "," .. lane.shown .. "," .. shown .. ","
        return head, format(",%d,%.0f]", epoch, generation), ready_at, generation
    end

    -- Whether a job that was done without a result, follow-ups or a history is recorded now.
    function finish_plain(id, said_epoch, said_nonce, started_at)
        if rows[id] or not texts[id] then
            return false
        end
        local state, flags, generation, born, epoch, lines, attempt, ready_at, _, keep_done, nonce, worker, name, _, shown, _, rest =
            cmsgpack.unpack(texts[id])
        if flags ~= 0 or lines ~= 0 or state ~= "running" or epoch ~= said_epoch or nonce ~= said_nonce then
            return false
        end
        local line = "[" .. now_shown .. format(',"done",%d,%.0f,%d,', epoch, generation, attempt) .. shown_worker(worker)
            .. "," .. (started_at and whole(started_at) or "null") .. ',""]'
        keep(id, cmsgpack.pack("done", 0, generation, born, epoch, 1, attempt, ready_at, now, keep_done, nonce, worker,
            name, "", shown, line, rest))
        local held = released[worker] or kept(released, worker)
        held[#held + 1] = id
        left[#left + 1] = id
        local place = #forgotten
        forgotten[place + 1], forgotten[place + 2] = now + keep_done, numbered(born, id)
        local lane = lane_named(name)
        count(lane, "running", -1)
        count(lane, "done", 1)
        return true
    end

    local function flush_counts()
        for lane, by_state in pairs(counts) do
            for state, by in pairs(by_state) do
                tally(state .. ":" .. lane.group, by)
            end
            tally("@" .. lane.task, by_state.running or 0)
        end
    end

    function flush_plain()
        if not states[1] then
            return
        end
        flush_counts()
        send("HSET", "state", states)
        send("HSET", "body", bodies)
        send("ZADD", "all", everything)
        send("ZADD", "live", everything)
        send("ZREM", "live", left)
        send("ZADD", "forget", forgotten)
        for lane, queued in pairs(ready) do
            send("ZADD", lane.ready, queued)
            kept(heads, "lanes")[lane.name] = lane.ready
        end
        for worker, ids in pairs(released) do
            send("SREM", "held:" .. worker, ids)
            holders[worker] = true
        end
        for worker, ids in pairs(lent) do
            send("SADD", "held:" .. worker, ids)
            holders[worker] = true
        end
        states, bodies, everything, left, forgotten = {}, {}, {}, {}, {}
        ready, lent, released, counts = {}, {}, {}, {}
    end
end
