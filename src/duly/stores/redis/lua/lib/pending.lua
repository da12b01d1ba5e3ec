-- pending: decide first, write after. Every change is collected here and sent by `flush`, in few large
-- commands; so an error while deciding has written nothing, and a batch of 500 costs about 20 commands.

local PORTION = 1000 -- arguments per command: unpack has a limit. Even, so that no pair is torn apart.

local pending = {
    is_ready = false, -- whether something became ready that a worker should be rung for
    is_urgent = false, -- whether it must be written though memory is full
    writers = {}, -- called before a flush: parts that collect in their own way
}
do
    local sorted, groups, hashes -- key -> member -> score, or membership, or text; false removes
    local heads -- queues whose head may have moved: the key of an index -> the queue's name -> its own key
    local popped, appended, trimmed, deleted, tallies
    local last -- number given out

    local function begin()
        sorted, groups, hashes, heads = {}, {}, {}, {}
        popped, appended, trimmed, deleted, tallies = {}, {}, {}, {}, {}
    end
    begin()

    local function kept(by_key, name)
        local found = by_key[name]
        if not found then
            found = {}
            by_key[name] = found
        end
        return found
    end
    pending.kept = kept

    function pending.rank(name, member, score)
        kept(sorted, name)[member] = score
    end

    -- Whether something of a sorted set is left to be written.
    function pending.is_ranking(name)
        return sorted[name] ~= nil
    end

    function pending.belong(name, member, is_in)
        kept(groups, name)[member] = is_in
    end

    function pending.write(name, field, text)
        kept(hashes, name)[field] = text
    end

    -- What `write` left to be written; nil where it left nothing.
    function pending.written(name, field)
        return hashes[name] and hashes[name][field]
    end

    -- A queue has an index entry that always names its earliest score: a claim reads the index only.
    function pending.move_head(index, name, key)
        kept(heads, index)[name] = key
    end

    function pending.queue(index, name, key, member, score)
        kept(sorted, key)[member] = score
        kept(heads, index)[name] = key
    end

    -- So many members leave at the head of a queue.
    function pending.pop(name, count)
        popped[name] = (popped[name] or 0) + count
    end

    function pending.append(name, line)
        local lines = kept(appended, name)
        lines[#lines + 1] = line
    end

    function pending.trim(name, count)
        trimmed[name] = count
    end

    function pending.delete(name)
        appended[name], trimmed[name] = nil, nil
        deleted[name] = true
    end

    function pending.tally(field, by)
        tallies[field] = (tallies[field] or 0) + by
    end

    -- Something that is counted for people: refusals, suppressions.
    function pending.tell(what)
        pending.tally("=" .. what, 1)
    end

    -- The store-wide rising counter: generations and lock tokens.
    function pending.count_up()
        last = (last or tonumber(call("HGET", prefix .. "meta", "last") or 0)) + 1
        return last
    end

    -- When memory is full Redis refuses a script's first write if it may grow something, and lets the script
    -- finish otherwise. What ends jobs must get through, so it begins with a write that cannot grow anything;
    -- but not without need: even that one would be written to the server's log.
    local function open_the_way()
        if pending.is_urgent then
            call("DEL", prefix)
            pending.is_urgent = false
        end
    end
    pending.open_the_way = open_the_way

    local function send(command, name, values)
        local total = #values
        if total == 0 then
            return
        elseif total <= PORTION then
            call(command, prefix .. name, unpack(values))
            return
        end
        for first = 1, total, PORTION do
            call(command, prefix .. name, unpack(values, first, math.min(first + PORTION - 1, total)))
        end
    end
    pending.send = send

    local function send_pairs(put, drop, name, changes, value_first)
        local added, removed, count = {}, {}, 0
        for member, value in pairs(changes) do
            if value then
                added[count + 1] = value_first and value or member
                added[count + 2] = value_first and member or value
                count = count + 2
            else
                removed[#removed + 1] = member
            end
        end
        send(drop, name, removed)
        send(put, name, added)
    end

    local function send_group(name, changes)
        local added, removed = {}, {}
        for member, is_in in pairs(changes) do
            local list = is_in and added or removed
            list[#list + 1] = member
        end
        send("SREM", name, removed)
        send("SADD", name, added)
    end

    local function send_head(index, name, key)
        local first = call("ZRANGE", prefix .. key, 0, 0, "WITHSCORES")
        if first[1] then
            call("ZADD", prefix .. index, first[2], name)
        else
            call("ZREM", prefix .. index, name)
        end
    end

    local function send_lists()
        for name, lines in pairs(appended) do
            send("RPUSH", name, lines)
        end
        for name, count in pairs(trimmed) do
            call("LTRIM", prefix .. name, -count, -1)
        end
        for name in pairs(deleted) do
            call("DEL", prefix .. name)
        end
    end

    local function send_tallies()
        for field, by in pairs(tallies) do
            if by ~= 0 and call("HINCRBY", prefix .. "tally", field, by) <= 0 then
                call("HDEL", prefix .. "tally", field)
            end
        end
    end

    local function send_heads()
        for index, moved in pairs(heads) do
            for name, key in pairs(moved) do
                send_head(index, name, key)
            end
        end
    end

    function pending.flush()
        for name, count in pairs(popped) do -- first: the positions are those before anything else changes
            call("ZREMRANGEBYRANK", prefix .. name, 0, count - 1)
        end
        for _, writer in ipairs(pending.writers) do
            writer()
        end
        if last then
            pending.write("meta", "last", whole(last))
        end
        if next(hashes) or next(sorted) or next(groups) or next(tallies) or next(appended) then
            open_the_way()
        end
        for name, changes in pairs(hashes) do
            send_pairs("HSET", "HDEL", name, changes, false)
        end
        for name, changes in pairs(sorted) do
            send_pairs("ZADD", "ZREM", name, changes, true)
        end
        for name, changes in pairs(groups) do
            send_group(name, changes)
        end
        send_heads()
        send_lists()
        send_tallies()
        begin()
    end

    -- One ring for the whole call: whoever listens looks for itself. Polling finds what a ring missed.
    function pending.ring()
        if pending.is_ready then
            call("PUBLISH", prefix .. "bell", "1")
        end
    end
end
