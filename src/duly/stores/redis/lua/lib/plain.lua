-- plain: the straight way for jobs about which there is nothing to decide: nothing else of their serial is
-- live, and they have no expiry, no order, no failure yet. Creating, lending and finishing one writes exactly
-- what rows and index would write, without making a table of it, which is most of the cost. Whatever is not
-- plain is refused here.
-- The fields of a packed job, here and in rows: state, flags, lane, keep_done, epoch, lines, finished_at, nonce,
-- worker, reason: its head, which lending and finishing write anew; the story; then what they leave alone, copied
-- as it lies: shown, due, generation, ready_at, attempt, serial, rest, born with 16 digits, and one byte of it.
-- Jobs of one lane and one claim have the same head. It is looked at once; in front of another job the same bytes
-- mean the same, and comparing them takes a fifth of the time of unpacking.
-- The story of a job that ended here is no more than when its run started, or false: rows makes the line of it.
-- Why one byte more: Lua 5.1 hashes a long text by every nth byte from its end, and jobs of one bulk are alike but
-- for their numbers. Without a last byte that differs every text was compared with all the others, a fifth of the
-- server's time in a drain.

local plain = {}
do
    local KEYED = 512 -- the one flag a plain job may have
    local HEAD = 10 -- fields
    local pack, unpack_some = cmsgpack.pack, cmsgpack.unpack_limit
    local find, sub, char = string.find, string.sub, string.char
    local texts, kept = stored.texts, pending.kept
    local states, written, bodies, everything, unmarked, emptied
    local ready, begun, moved
    local met, waiting, running -- heads: all, of the job lent last, and by the fence that ends name
    local shaped, shape -- a request, and what is made of it

    local function begin()
        states, written, bodies, everything, unmarked, emptied = {}, 0, {}, {}, {}, {}
        ready, begun, moved = {}, {}, {} -- by lane or serial
        met, waiting, running = {}, nil, {}
    end
    begin()

    local function keep(id, text)
        texts[id] = text
        states[written + 1], states[written + 2] = id, text
        written = written + 2
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
        local lane = naming.lane_of(values[2], values[3], values[4])
        shaped = values
        shape = {
            lane = lane,
            due = due,
            due_shown = whole(due),
            counted = "waiting:" .. lane.group,
            beginning = pack("waiting", (key or values[6]) and KEYED or 0, lane.name, values[16], 0, 0, nil, NOBODYS,
                "", "", nil, show(key) .. ",0,0,0,0,false," .. show(tick) .. ",null", due),
            middle = pack(due, 0),
            rest = pack(pack(0, 0, 0, nil, nil, nil, at, nil, key, values[11], values[12], values[18], values[17], tick,
                values[15], nil)),
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
        local number = format("%016d", generation)
        -- Little is packed here: `pack` makes a text of every value that it is given.
        keep(id, new.beginning .. pack(generation) .. new.middle .. (serial and pack(serial) or "\192") .. new.rest
            .. "\176" .. number .. char(generation % 128))
        if serial then
            begin_serial(serial, key, id, generation)
        end
        local queued = kept(ready, new.lane)
        local place, twice = #queued, #bodies
        queued[place + 1], queued[place + 2] = new.due_shown, number .. id
        bodies[twice + 1], bodies[twice + 2] = id, values[20]
        everything[twice + 1], everything[twice + 2] = number, id
        pending.tally(new.counted, 1)
        pending.is_ready = true
        return generation
    end

    -- A head that is replaced in every job that begins with it, and the jobs for which that happens in this call.
    local function meet(text, tail, lane, flags)
        local head = { text = sub(text, 1, tail), tail = tail, lane = lane, is_keyed = flags == KEYED, ids = {}, count = 0 }
        met[#met + 1] = head
        return head
    end

    local function meet_waiting(text, lane, worker, secret)
        local tail, state, flags, name, keep_done, epoch, lines, _, _, _, reason = unpack_some(text, HEAD)
        if state ~= "waiting" or (flags ~= 0 and flags ~= KEYED) then
            return nil
        end
        local head = meet(text, tail, lane, flags)
        head.epoch, head.worker = epoch + 1, worker
        head.new = pack("running", flags, name, keep_done, epoch + 1, lines, nil, secret, worker, reason)
        return head
    end

    local function meet_running(text, fence)
        local said_epoch, said_nonce = fence.epoch, fence.nonce
        local tail, state, flags, name, keep_done, epoch, lines, _, nonce, worker = unpack_some(text, HEAD)
        if state ~= "running" or lines ~= 0 or epoch ~= said_epoch or nonce ~= said_nonce then
            return nil
        elseif flags ~= 0 and flags ~= KEYED then
            return nil
        end
        local head = meet(text, tail, naming.lane_named(name), flags)
        head.worker, head.has_ended = worker, true
        head.new = pack("done", flags, name, keep_done, epoch, 1, now, nonce, worker, "")
        head.forgotten, head.forgets_at = {}, whole(now + keep_done)
        return head
    end

    -- Of a job with a key: nil if more of its serial is live.
    local function serial_of(text, tail)
        local serial = select(8, unpack_some(text, 7, tail))
        return has_only(serial, 1) and (serial or false) or nil
    end

    -- Answers what the job has in common with others of its claim (an epoch), and what is its own: the part that is
    -- shown as it lies, when it was due, its generation, and when it became ready.
    function plain.lend(id, lane, worker, secret)
        local text, head = texts[id], waiting
        if not text or text == true then
            return nil
        elseif not head or find(text, head.text, 1, true) ~= 1 then
            head = meet_waiting(text, lane, worker, secret)
            if not head then
                return nil
            end
            waiting = head
        end
        local tail = head.tail
        local _, _, shown, due, generation, ready_at = unpack_some(text, 5, tail)
        if head.is_keyed then
            local serial = serial_of(text, tail)
            if serial == nil then
                return nil
            elseif serial then
                moved[serial] = { id, generation }
            end
        end
        keep(id, head.new .. sub(text, tail + 1))
        local count = head.count + 1
        head.count, head.ids[count] = count, id
        return head, shown, due, generation, ready_at
    end

    -- What ends with this epoch, nonce and start have in common.
    function plain.fence_of(epoch, nonce, started_at)
        return { name = format("%d ", epoch) .. nonce, epoch = epoch, nonce = nonce, story = pack(started_at) }
    end

    -- Whether a run that ended without a result, follow-ups or earlier lines is recorded now.
    function plain.finish(id, fence)
        local text, head = texts[id], running[fence.name]
        if not text or text == true then
            return false
        elseif not head or find(text, head.text, 1, true) ~= 1 then
            head = meet_running(text, fence)
            if not head then
                return false
            end
            running[fence.name] = head
        end
        if head.is_keyed then
            local serial = serial_of(text, head.tail)
            if serial == nil then
                return false
            elseif serial then
                emptied[#emptied + 1] = prefix .. "serial:" .. serial
            end
        end
        keep(id, head.new .. fence.story .. sub(text, head.tail + 2)) -- in the place of one byte: there was no story
        local count, forgotten = head.count + 1, head.forgotten
        head.count, head.ids[count] = count, id
        forgotten[2 * count - 1], forgotten[2 * count] = head.forgets_at, sub(text, -17, -2) .. id
        return true
    end

    local function send_loans(head)
        local group, task, count = head.lane.group, head.lane.task, head.count
        pending.tally("waiting:" .. group, -count)
        pending.tally("running:" .. group, count)
        pending.tally("@" .. task, count)
        pending.send("SADD", "held:" .. head.worker, head.ids)
        workers.touch(head.worker)
    end

    local function send_ends(head)
        local group, task, count = head.lane.group, head.lane.task, head.count
        pending.tally("running:" .. group, -count)
        pending.tally("done:" .. group, count)
        pending.tally("@" .. task, -count)
        pending.send("ZREM", "live", head.ids)
        pending.send("ZADD", "forget", head.forgotten)
        pending.send("SREM", "held:" .. head.worker, head.ids)
        workers.touch(head.worker)
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
        if written == 0 then
            return
        end
        pending.open_the_way()
        pending.send("HSET", "state", states)
        pending.send("HSET", "body", bodies)
        pending.send("ZADD", "all", everything)
        pending.send("ZADD", "live", everything)
        for lane, queued in pairs(ready) do
            pending.send("ZADD", lane.ready, queued)
            pending.move_head("lanes", lane.name, lane.ready)
        end
        for _, head in ipairs(met) do
            if head.count > 0 then -- else a serial was in the way
                (head.has_ended and send_ends or send_loans)(head)
            end
        end
        send_serials()
        begin()
    end
end
