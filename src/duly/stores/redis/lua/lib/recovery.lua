-- recovery: jobs of workers that let their lease run out, and jobs nobody wants any more.

local loans_of, recover, expire
do
    local EXPIRED_AT_ONCE = 1000 -- per claim; should more have expired, the next claim goes on with them

    -- Back to the ready set, still ahead of what is parked behind it.
    local function lend_again(row, evidence)
        note(row, "lease ran out", evidence)
        if row.began_isolated then
            local rest = open(row)
            rest.crashes = rest.crashes + 1
        end
        open(row)
        row.is_suspect = true
        row.state = "waiting"
        row.ready_at = now
        row.worker = ""
        row.has_begun, row.began_isolated = false, false
        index(row)
    end

    local function recover_one(row)
        local presence = presence_of(row.worker)
        local host = presence and presence.host ~= "" and presence.host or "an unknown host"
        local evidence = "lease ran out on " .. host
        local rest = open(row)
        row.nonce = NOBODYS -- the old claim must not be taken for the one that ended the job
        if rest.superseded_by then
            note(row, "lease ran out", evidence)
            tell("superseded")
            finish(row, "supersede", "superseded by " .. rest.superseded_by)
        elseif rest.wish == "cancel" or rest.wish == "delete" then
            note(row, "lease ran out", evidence)
            finish(row, "cancel", "cancelled while running")
            if rest.wish == "delete" then
                remove(row)
            end
        elseif row.is_at_most_once and row.has_begun then
            note(row, "lease ran out", evidence)
            set_error(row, evidence)
            finish(row, "interrupt", "interrupted, outcome unknown")
        elseif row.began_isolated and rest.crashes + 1 >= CRASH_CAP then
            rest.crashes = rest.crashes + 1
            note(row, "crash", evidence)
            set_error(row, "crashed: " .. evidence)
            finish(row, "fail", "crashed too often")
        else
            lend_again(row, evidence)
        end
    end

    -- What a worker holds; an id whose row somebody deleted is let go.
    function loans_of(worker)
        local ids = call("SMEMBERS", prefix .. "held:" .. worker)
        load(ids)
        local held = {}
        for _, id in ipairs(ids) do
            local row = row_of(id)
            if row and row.state == "running" and row.worker == worker then
                held[#held + 1] = row
            else
                belong("held:" .. worker, id, false)
                holders[worker] = true
            end
        end
        return held
    end

    function recover()
        local lost = {}
        for _, worker in ipairs(call("ZRANGEBYSCORE", prefix .. "holders", "-inf", boot)) do
            local held = has_lease(worker) and {} or loans_of(worker) -- its own claim may have renewed it just now
            for _, row in ipairs(held) do
                lost[#lost + 1] = row
            end
        end
        table.sort(lost, oldest_first)
        for _, row in ipairs(lost) do
            recover_one(row)
        end
        if lost[1] then
            flush() -- what became ready may have expired meanwhile
        end
    end

    -- Skip what nobody wants any more, parked or not, before lending: it may stand in another's way.
    -- Answers whether there is more of it than one claim should carry.
    function expire(is_served)
        local late, wanted = {}, EXPIRED_AT_ONCE
        for _, group in ipairs(call("ZRANGEBYSCORE", prefix .. "expiries", "-inf", now)) do
            local task, queue_name = parse_group(group)
            if is_served(task, queue_name) and wanted > 0 then
                local name = prefix .. "expiry:" .. group
                local ids = call("ZRANGEBYSCORE", name, "-inf", now, "LIMIT", 0, wanted)
                wanted = wanted - #ids
                for _, row in ipairs(rows_of(ids)) do
                    late[#late + 1] = row
                end
                if #rows_of(ids) < #ids then -- somebody deleted rows by hand
                    for _, id in ipairs(ids) do
                        if not texts[id] then
                            queue("expiries", group, "expiry:" .. group, id, false)
                        end
                    end
                end
            end
        end
        table.sort(late, oldest_first)
        for _, row in ipairs(late) do
            finish(row, "expire", "expired")
        end
        return wanted <= 0
    end
end
