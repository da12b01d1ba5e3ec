-- delivered: what relays brought from an outbox, remembered for longer than any of them can be late: each
-- request, and the number of the last one of each serial.

local delivered = {}
do
    local known, numbers = {}, {} -- as they are after what this call has decided

    function delivered.has(id)
        if known[id] == nil then
            known[id] = call("ZSCORE", prefix .. "delivered", id) ~= false
        end
        return known[id]
    end

    function delivered.remember(id, closes_at)
        known[id] = true
        pending.rank("delivered", id, closes_at)
    end

    -- The last number of a serial; -1 where nothing is remembered.
    function delivered.number_of(name)
        numbers[name] = numbers[name] or tonumber(call("HGET", prefix .. "numbers", name) or -1)
        return numbers[name]
    end

    function delivered.set_number(name, number, closes_at)
        numbers[name] = number
        pending.write("numbers", name, whole(number))
        pending.rank("numbered", name, closes_at)
    end

    -- Let go of what no relay can bring again, at most so many.
    function delivered.forget(limit)
        for _, id in ipairs(call("ZRANGEBYSCORE", prefix .. "delivered", "-inf", now, "LIMIT", 0, limit)) do
            pending.rank("delivered", id, false)
        end
        for _, name in ipairs(call("ZRANGEBYSCORE", prefix .. "numbered", "-inf", now, "LIMIT", 0, limit)) do
            pending.rank("numbered", name, false)
            pending.write("numbers", name, false)
        end
    end
end
