-- recovery: jobs of workers that let their lease run out become ready, or end as they must.

local recovery = {}
do
    -- What duly.fingerprints makes of the two errors that are told here, wherever it happened.
    local INTERRUPTED, CRASHED = "63bee92ce202", "c52880aaa516"

    -- Back to the ready set, still ahead of what is parked behind it.
    local function lend_again(row, evidence)
        rows.note(row, "lease ran out", evidence)
        if row.began_isolated then
            local rest = rows.open(row)
            rest.crashes = rest.crashes + 1
        end
        rows.open(row)
        row.is_suspect = true
        row.state = "waiting"
        row.ready_at = now
        row.worker = ""
        row.has_begun, row.began_isolated = false, false
        index.update(row)
    end

    local function recover_one(row)
        local presence = workers.presence_of(row.worker)
        local host = presence and presence.host ~= "" and presence.host or "an unknown host"
        local evidence = "lease ran out on " .. host
        local rest = rows.open(row)
        row.nonce = NOBODYS -- the old claim must not be taken for the one that ended the job
        if rest.superseded_by then
            rows.note(row, "lease ran out", evidence)
            pending.tell("superseded")
            lifecycle.finish(row, "supersede", "superseded by " .. rest.superseded_by)
        elseif rest.wish == "cancel" or rest.wish == "delete" then
            rows.note(row, "lease ran out", evidence)
            lifecycle.finish(row, "cancel", "cancelled while running")
            if rest.wish == "delete" then
                index.remove(row)
            end
        elseif row.is_at_most_once and row.has_begun then
            rows.note(row, "lease ran out", evidence)
            rows.set_error(row, evidence, INTERRUPTED)
            lifecycle.finish(row, "interrupt", "interrupted, outcome unknown")
        -- A perpetual goes on: what its lost leases hide is told by the next worker that sees it die.
        elseif row.began_isolated and rest.crashes + 1 >= verdicts.CRASH_CAP and not rest.perpetual then
            rest.crashes = rest.crashes + 1
            rows.note(row, "crash", evidence)
            rows.set_error(row, "crashed: " .. evidence, CRASHED)
            lifecycle.finish(row, "fail", "crashed too often")
        else
            lend_again(row, evidence)
        end
    end

    -- What a worker holds; an id whose row somebody deleted is let go.
    function recovery.loans_of(worker)
        local ids = call("SMEMBERS", prefix .. "held:" .. worker)
        stored.load(ids)
        local held = {}
        for _, id in ipairs(ids) do
            local row = rows.of(id)
            if row and row.state == "running" and row.worker == worker then
                held[#held + 1] = row
            else
                pending.belong("held:" .. worker, id, false)
                workers.touch(worker)
            end
        end
        return held
    end

    function recovery.recover(gone)
        local lost = {}
        for _, worker in ipairs(gone) do
            -- The claim that asks may have renewed its own lease just now.
            for _, row in ipairs(workers.has_lease(worker) and {} or recovery.loans_of(worker)) do
                lost[#lost + 1] = row
            end
        end
        rows.sort(lost)
        for _, row in ipairs(lost) do
            recover_one(row)
        end
        if lost[1] then
            flush() -- what became ready may have expired meanwhile
        end
    end
end
