-- expiry: jobs nobody wants any more are skipped, parked or not, before anything is lent.

local expiry = {}
do
    local AT_ONCE = 1000 -- per claim; should more have expired, the next claim goes on with them

    -- The late ones of a group, at most `wanted`.
    local function late_in(group, wanted)
        local name = "expiry:" .. group
        local ids = call("ZRANGEBYSCORE", prefix .. name, "-inf", now, "LIMIT", 0, wanted)
        local late = rows.all_of(ids)
        for place = 1, #late < #ids and #ids or 0 do -- somebody deleted rows by hand
            if not rows.of(ids[place]) then
                pending.queue("expiries", group, name, ids[place], false)
            end
        end
        return late, #ids
    end

    -- Skip what nobody wants any more, parked or not, before lending: it may stand in another's way.
    -- Answers whether there may be more of it than one claim should carry.
    function expiry.expire(groups)
        local late, wanted = {}, AT_ONCE
        for _, group in ipairs(groups) do
            if wanted > 0 and lanes.is_served(naming.parse_group(group)) then
                local found, count = late_in(group, wanted)
                wanted = wanted - count
                for _, row in ipairs(found) do
                    late[#late + 1] = row
                end
            end
        end
        rows.sort(late)
        for _, row in ipairs(late) do
            lifecycle.finish(row, "expire", "expired")
        end
        flush()
        return wanted <= 0
    end
end
