-- pending: decide first, write after. Every change is collected here and sent by `flush`, in few large
-- commands; so an error while deciding has written nothing, and a batch of 500 costs about 20 commands.

local PORTION = 1000 -- arguments per command: unpack has a limit. Even, so that no pair is torn apart.
local sorted, groups, hashes = {}, {}, {} -- key -> member -> score, or membership, or text; false removes
local heads = {} -- queues whose head may have moved: the key of its index -> the queue's name -> its own key
local appended, deleted, tallies = {}, {}, {}
local popped, trimmed = {}, {} -- how many members go from the head of a queue, or stay at the end of a list
local is_ready = false -- whether something became ready that a worker should be rung for
local kept, rank, belong, write, queue, tally, send, flush_pending, ring
do
    function kept(by_key, name)
        local pending = by_key[name]
        if not pending then
            pending = {}
            by_key[name] = pending
        end
        return pending
    end

    function rank(name, member, score)
        local pending = sorted[name] or kept(sorted, name)
        pending[member] = score
    end

    function belong(name, member, is_in)
        local pending = groups[name] or kept(groups, name)
        pending[member] = is_in
    end

    function write(name, field, text)
        local pending = hashes[name] or kept(hashes, name)
        pending[field] = text
    end

    -- A queue with an index entry that always names its earliest score: a claim reads the index only.
    function queue(head, name, key, member, score)
        rank(key, member, score)
        local moved = heads[head] or kept(heads, head)
        moved[name] = key
    end

    function tally(field, by)
        tallies[field] = (tallies[field] or 0) + by
    end

    function send(command, name, values)
        local total = #values
        for first = 1, total, PORTION do
            call(command, prefix .. name, unpack(values, first, math.min(first + PORTION - 1, total)))
        end
    end

    local function send_sorted(name, pending)
        local added, removed = {}, {}
        local a, r = 0, 0
        for member, score in pairs(pending) do
            if score then
                added[a + 1], added[a + 2] = score, member
                a = a + 2
            else
                r = r + 1
                removed[r] = member
            end
        end
        send("ZREM", name, removed)
        send("ZADD", name, added)
    end

    local function send_group(name, pending)
        local added, removed = {}, {}
        for member, is_in in pairs(pending) do
            local list = is_in and added or removed
            list[#list + 1] = member
        end
        send("SREM", name, removed)
        send("SADD", name, added)
    end

    local function send_hash(name, pending)
        local written, removed = {}, {}
        local w, r = 0, 0
        for field, text in pairs(pending) do
            if text then
                written[w + 1], written[w + 2] = field, text
                w = w + 2
            else
                r = r + 1
                removed[r] = field
            end
        end
        send("HDEL", name, removed)
        send("HSET", name, written)
    end

    local function send_head(index, name, key)
        local first = call("ZRANGE", prefix .. key, 0, 0, "WITHSCORES")
        if first[1] then
            call("ZADD", prefix .. index, first[2], name)
        else
            call("ZREM", prefix .. index, name)
        end
    end

    local function send_tally(field, by)
        if by ~= 0 and call("HINCRBY", prefix .. "tally", field, by) <= 0 then
            call("HDEL", prefix .. "tally", field)
        end
    end

    function flush_pending()
        for name, members in pairs(popped) do -- first: the positions are those before anything else changes
            call("ZREMRANGEBYRANK", prefix .. name, 0, members - 1)
        end
        for name, pending in pairs(hashes) do
            send_hash(name, pending)
        end
        for name, pending in pairs(sorted) do
            send_sorted(name, pending)
        end
        for name, pending in pairs(groups) do
            send_group(name, pending)
        end
        for index, moved in pairs(heads) do
            for name, key in pairs(moved) do
                send_head(index, name, key)
            end
        end
        for name, lines in pairs(appended) do
            send("RPUSH", name, lines)
        end
        for name, lines in pairs(trimmed) do
            call("LTRIM", prefix .. name, -lines, -1)
        end
        for name in pairs(deleted) do
            call("DEL", prefix .. name)
        end
        for field, by in pairs(tallies) do
            send_tally(field, by)
        end
        sorted, groups, hashes, heads, appended, deleted = {}, {}, {}, {}, {}, {}
        tallies, popped, trimmed = {}, {}, {}
    end

    -- One ring for the whole call: whoever listens looks for itself. Polling finds what a ring missed.
    function ring()
        if is_ready then
            call("PUBLISH", prefix .. "bell", "1")
        end
    end
end
