-- plain: the straight way for jobs about which there is nothing to decide: no key, no expiry, no order, no
-- failure yet. Creating, lending and finishing one writes exactly what rows and index would write, without
-- making a table of it, which is most of the cost. Whatever is not plain is refused here.
-- The fields of a packed job, here and in rows: state, flags, generation, born, epoch, lines, attempt,
-- ready_at, finished_at, keep_done, nonce, worker, lane, reason, shown, story, rest.

local plain = {}
do
    local pack, unpack_all, numbered = cmsgpack.pack, cmsgpack.unpack, naming.numbered
    local texts, kept = stored.texts, pending.kept
    local now_shown = whole(now)
    local states, bodies, everything, left, forgotten, ready, lent, released, counts, workers_shown

    local function begin()
        states, bodies, everything, left, forgotten = {}, {}, {}, {}, {}
        ready, lent, released, counts, workers_shown = {}, {}, {}, {}, {} -- by lane or worker
    end
    begin()

    local function count(lane, state, by)
        local by_state = kept(counts, lane)
        by_state[state] = (by_state[state] or 0) + by
    end

    local function keep(id, text)
        texts[id] = text
        local place = #states
        states[place + 1], states[place + 2] = id, text
    end

    local function shown_worker(worker)
        workers_shown[worker] = workers_shown[worker] or json(worker)
        return workers_shown[worker]
    end

    -- Answers the generation of the new job, or nil if it takes more than this.
    -- The values of a request are in the order that requests.read names.
    function plain.create(values)
        local id, delivery = values[1], values[15]
        if values[5] or values[6] or values[9] or delivery == "at_most_once" then
            return nil
        end
        local generation = pending.count_up()
        local lane = naming.lane_of(values[2], values[3], values[4])
        local due = values[7] or (values[8] and now + values[8]) or now
        local tick = values[19] or nil
        local shown = "null,0,0,0,0,false," .. whole(due) .. "," .. show(tick) .. ",null"
        local rest = pack(0, 0, 0, due, nil, nil, nil, now, nil, nil, nil, values[11], values[12], values[18],
            values[17], tick, delivery, nil)
        keep(id, pack("waiting", 0, generation, generation, 0, 0, 0, due, nil, values[16], NOBODYS, "",
            lane.name, "", shown, nil, rest))
        local queued = kept(ready, lane)
        local place, twice = #queued, #bodies
        queued[place + 1], queued[place + 2] = due, numbered(generation, id)
        bodies[twice + 1], bodies[twice + 2] = id, values[20]
        everything[twice + 1], everything[twice + 2] = generation, id
        count(lane, "waiting", 1)
        pending.is_ready = true
        return generation
    end

    -- Answers the claim as text before and after the body of the job, when it was due, and its generation.
    function plain.lend(id, lane, worker, secret)
        if not stored.is_untouched(id) then
            return nil
        end
        local state, flags, generation, born, epoch, lines, attempt, ready_at, _, keep_done, _, _, name, reason, shown, story, rest =
            unpack_all(texts[id])
        if flags ~= 0 or state ~= "waiting" then
            return nil
        end
        epoch = epoch + 1
        keep(id, pack("running", 0, generation, born, epoch, lines, attempt, ready_at, nil, keep_done, secret,
            worker, name, reason, shown, story, rest))
        local held = kept(lent, worker)
        held[#held + 1] = id
        count(lane, "waiting", -1)
        count(lane, "running", 1)
        local head = "[" .. json(id) .. "," .. lane.shown .. "," .. shown .. ","
        return head, format(",%d,%.0f]", epoch, generation), ready_at, generation
    end

    -- Whether a run that ended without a result, follow-ups or earlier lines is recorded now.
    function plain.finish(id, said_epoch, said_nonce, started_at)
        if not stored.is_untouched(id) then
            return false
        end
        local state, flags, generation, born, epoch, lines, attempt, ready_at, _, keep_done, nonce, worker, name, _, shown, _, rest =
            unpack_all(texts[id])
        if flags ~= 0 or lines ~= 0 or state ~= "running" or epoch ~= said_epoch or nonce ~= said_nonce then
            return false
        end
        local line = "[" .. now_shown .. format(',"done",%d,%.0f,%d,', epoch, generation, attempt)
        line = line .. shown_worker(worker) .. "," .. (started_at and whole(started_at) or "null") .. ',""]'
        keep(id, pack("done", 0, generation, born, epoch, 1, attempt, ready_at, now, keep_done, nonce, worker,
            name, "", shown, line, rest))
        local held = kept(released, worker)
        held[#held + 1] = id
        left[#left + 1] = id
        local place = #forgotten
        forgotten[place + 1], forgotten[place + 2] = now + keep_done, numbered(born, id)
        local lane = naming.lane_named(name)
        count(lane, "running", -1)
        count(lane, "done", 1)
        return true
    end

    local function tally()
        for lane, by_state in pairs(counts) do
            for state, by in pairs(by_state) do
                pending.tally(state .. ":" .. lane.group, by)
            end
            pending.tally("@" .. lane.task, by_state.running or 0)
        end
    end

    local function send_loans(command, by_worker)
        for worker, ids in pairs(by_worker) do
            pending.send(command, "held:" .. worker, ids)
            workers.touch(worker)
        end
    end

    pending.writers[#pending.writers + 1] = function()
        if not states[1] then
            return
        end
        tally()
        pending.send("HSET", "state", states)
        pending.send("HSET", "body", bodies)
        pending.send("ZADD", "all", everything)
        pending.send("ZADD", "live", everything)
        pending.send("ZREM", "live", left)
        pending.send("ZADD", "forget", forgotten)
        for lane, queued in pairs(ready) do
            pending.send("ZADD", lane.ready, queued)
            pending.move_head("lanes", lane.name, lane.ready)
        end
        send_loans("SREM", released)
        send_loans("SADD", lent)
        begin()
    end
end
