-- plain: the straight way for jobs about which there is nothing to decide: nothing else of their serial is
-- live, and they have no expiry, no order, no failure yet. Creating, lending and finishing one writes exactly
-- what rows and index would write, without making a table of it, which is most of the cost. Whatever is not
-- plain is refused here.
-- The fields of a packed job, here and in rows: state, flags, lane, epoch, lines, finished_at, nonce, worker,
-- reason, story; then what lending and finishing leave alone, copied as it lies: generation, born, attempt,
-- ready_at, keep_done, serial, shown, rest, and the last byte of the generation once more. Lua 5.1 hashes a long
-- text by every nth byte from its end, and jobs of one bulk are alike but for their generation: without a last
-- byte that differs every text was compared with all the others, a fifth of the server's time in a drain.

local plain = {}
do
    local KEYED = 512 -- the one flag a plain job may have
    local NOTHING = cmsgpack.pack(nil)
    local HEAD, TAIL = 10, 7 -- fields that change, and fields behind them that are looked at
    local pack, unpack_some, numbered = cmsgpack.pack, cmsgpack.unpack_limit, naming.numbered
    local texts, kept = stored.texts, pending.kept
    local now_shown = whole(now)
    local states, bodies, everything, left, forgotten, unmarked, emptied
    local ready, lent, released, counts, begun, moved, workers_shown
    local shaped, shape -- a request, and what is made of it
    local last_lent, last_ended = {}, {} -- heads that were packed last
    local keeps, forgets_at -- how long jobs are kept that finish now, and the end of it as text
    local ends_shown = "[" .. now_shown .. ',"done",'

    local function begin()
        states, bodies, everything, left, forgotten, unmarked, emptied = {}, {}, {}, {}, {}, {}, {}
        ready, lent, released, counts, begun, moved = {}, {}, {}, {}, {}, {} -- by lane, worker or serial
        workers_shown = {}
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

    -- Whether so many jobs of the serial are live, and this call has not dealt with it before.
    local function has_only(serial, jobs)
        if not serial then
            return true
        elseif stored.serials[serial] or call("ZCARD", prefix .. "serial:" .. serial) ~= jobs then
            return false
        end
        stored.serials[serial] = true
        return true
    end

    local function asks_little(values)
        return not values[9] and values[10] ~= "seed" and not values[13] and values[15] ~= "at_most_once"
    end

    local function begin_serial(serial, key, id, generation)
        unmarked[#unmarked + 1] = serial
        begun[serial] = { generation, "w" .. id }
        if key then
            pending.rank("key:" .. key, id, generation)
        end
    end

    -- What a new job has of its request beside id, body and generation. Those of a bundle come in one table,
    -- so it is made once for all of them.
    local function shape_of(values)
        if shaped == values then
            return shape
        end
        local key, at, tick = values[5] or nil, values[21] or now, values[19] or nil
        local due = values[7] or (values[8] and at + values[8]) or at
        shaped = values
        shape = {
            lane = naming.lane_of(values[2], values[3], values[4]),
            due = due,
            due_shown = whole(due),
            flags = (key or values[6]) and KEYED or 0,
            shown = show(key) .. ",0,0,0,0,false," .. whole(due) .. "," .. show(tick) .. ",null",
            rest = pack(0, 0, 0, due, nil, nil, nil, at, nil, key, values[11], values[12], values[18],
                values[17], tick, values[15], nil),
        }
        return shape
    end

    -- Answers the generation of the new job, or nil if it takes more than this.
    -- The values of a request are in the order that requests.read names. Scores are given as text: the server
    -- would print a number with 17 digits first.
    function plain.create(values)
        local id, key, serial = values[1], values[5] or nil, values[6] or nil
        if not (asks_little(values) and has_only(serial, 0)) then
            return nil
        end
        local generation = pending.count_up()
        local new = shape_of(values)
        keep(id, pack("waiting", new.flags, new.lane.name, 0, 0, nil, NOBODYS, "", "", nil, generation, generation, 0,
            new.due, values[16], serial, new.shown, new.rest, generation % 256))
        if serial then
            begin_serial(serial, key, id, generation)
        end
        local queued = kept(ready, new.lane)
        local place, twice = #queued, #bodies
        local number = format("%016d", generation)
        queued[place + 1], queued[place + 2] = new.due_shown, number .. id
        bodies[twice + 1], bodies[twice + 2] = id, values[20]
        everything[twice + 1], everything[twice + 2] = number, id
        count(new.lane, "waiting", 1)
        pending.is_ready = true
        return generation
    end

    local function is_plain(flags, serial)
        return flags == 0 or (flags == KEYED and has_only(serial, 1))
    end

    -- The head of a job, but for its story; most in a batch have the same.
    local function head_of(last, state, flags, lane, epoch, lines, finished_at, nonce, worker, reason)
        local is_same = last.flags == flags and last.lane == lane and last.epoch == epoch and last.lines == lines
        if not (is_same and last.nonce == nonce and last.worker == worker and last.reason == reason) then
            last.flags, last.lane, last.epoch, last.lines = flags, lane, epoch, lines
            last.nonce, last.worker, last.reason = nonce, worker, reason
            last.text = pack(state, flags, lane, epoch, lines, finished_at, nonce, worker, reason)
        end
        return last.text
    end

    -- Answers the claim as text beside its id and body: its own part, its end, when it was due, and its generation.
    function plain.lend(id, lane, worker, secret)
        if not stored.is_untouched(id) then
            return nil
        end
        local text = texts[id]
        local tail, state, flags, name, epoch, lines, _, _, _, reason, story = unpack_some(text, HEAD)
        local _, generation, _, _, ready_at, _, serial, shown = unpack_some(text, TAIL, tail)
        if state ~= "waiting" or not is_plain(flags, serial) then
            return nil
        end
        epoch = epoch + 1
        local head = head_of(last_lent, "running", flags, name, epoch, lines, nil, secret, worker, reason)
        keep(id, head .. (story and pack(story) or NOTHING) .. text:sub(tail + 1))
        if serial then
            moved[serial] = { id, generation }
        end
        local held = kept(lent, worker)
        held[#held + 1] = id
        count(lane, "waiting", -1)
        count(lane, "running", 1)
        return shown, format(",%d,%d]", epoch, generation), ready_at, generation
    end

    -- Whether a run that ended without a result, follow-ups or earlier lines is recorded now.
    function plain.finish(id, said_epoch, said_nonce, started_at)
        if not stored.is_untouched(id) then
            return false
        end
        local text = texts[id]
        local tail, state, flags, name, epoch, lines, _, nonce, worker = unpack_some(text, HEAD)
        local _, generation, born, attempt, _, keep_done, serial = unpack_some(text, TAIL, tail)
        if state ~= "running" or lines ~= 0 or epoch ~= said_epoch or nonce ~= said_nonce then
            return false
        elseif not is_plain(flags, serial) then
            return false
        end
        local line = ends_shown .. format("%d,%d,%d,", epoch, generation, attempt) .. shown_worker(worker)
            .. (started_at and format(',%d,""]', started_at) or ',null,""]')
        local head = head_of(last_ended, "done", flags, name, epoch, 1, now, nonce, worker, "")
        keep(id, head .. pack(line) .. text:sub(tail + 1))
        if serial then
            emptied[#emptied + 1] = prefix .. "serial:" .. serial
        end
        local held = kept(released, worker)
        held[#held + 1] = id
        left[#left + 1] = id
        if keeps ~= keep_done then
            keeps, forgets_at = keep_done, whole(now + keep_done)
        end
        local place = #forgotten
        forgotten[place + 1], forgotten[place + 2] = forgets_at, numbered(born, id)
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

    -- Each of these serials has one live job: it began, was lent, or is the last to go.
    local function send_serials()
        for serial, values in pairs(begun) do
            call("ZADD", prefix .. "serial:" .. serial, values[1], values[2])
        end
        for serial, values in pairs(moved) do
            local name = prefix .. "serial:" .. serial
            call("ZADD", name, values[2], "r" .. values[1])
            call("ZREM", name, "w" .. values[1])
        end
        for first = 1, #emptied, PORTION do
            call("DEL", unpack(emptied, first, math.min(first + PORTION - 1, #emptied)))
        end
        pending.send("HDEL", "markers", unmarked)
    end

    pending.writers[#pending.writers + 1] = function()
        if not states[1] then
            return
        end
        pending.open_the_way()
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
        send_serials()
        begin()
    end
end
