-- verdicts: what a verdict means when the world has moved on. The same table as duly.lifecycle, written in
-- Lua because it must be decided where the job is locked; a test compares the two over every combination.

local verdicts = {}
do
    local MOVES = {
        waiting = {
            claim = "running",
            cancel = "cancelled",
            supersede = "cancelled",
            expire = "skipped",
            overtake = "skipped",
            postpone = "waiting",
        },
        running = {
            claim = "running",
            done = "done",
            again = "waiting",
            stop = "done",
            retry = "waiting",
            defer = "waiting",
            release = "waiting",
            crash = "waiting",
            fail = "failed",
            interrupt = "failed",
            skip = "skipped",
            cancel = "cancelled",
            supersede = "cancelled",
            absorb = "cancelled",
        },
        done = { revive = "waiting" },
        failed = { revive = "waiting" },
        cancelled = { revive = "waiting" },
        skipped = { revive = "waiting" },
    }
    verdicts.GOES_ON = { again = true, retry = true, defer = true, release = true, crash = true }
    local UNASKED = { retry = true, release = true, crash = true }
    verdicts.CRASH_CAP = 3
    verdicts.HISTORY_LINES = 100

    function verdicts.move(state, event)
        return MOVES[state][event] or error("A " .. state .. " job cannot " .. event)
    end

    -- verdict: event, reason (its words if nothing happened meanwhile), error, counted.
    -- standing: superseded_by, wish, queued, crashes, is_spent.
    function verdicts.conclude(verdict, standing)
        local event = verdict.event
        if standing.superseded_by then
            return "supersede", "superseded by " .. standing.superseded_by, "superseded"
        elseif standing.wish == "cancel" or standing.wish == "delete" then
            return "cancel", "cancelled while running", "settled"
        elseif standing.is_spent and UNASKED[event] then
            return "interrupt", "interrupted, outcome unknown", "settled"
        elseif event == "crash" and verdict.counted and standing.crashes + 1 >= verdicts.CRASH_CAP then
            return "fail", "crashed too often", "settled"
        elseif not (standing.queued and verdicts.GOES_ON[event]) then
            return event, verdict.reason, "settled"
        elseif event == "again" then
            return verdict.error and "fail" or "done", "yielded to " .. standing.queued, "settled"
        end
        return "absorb", "absorbed by " .. standing.queued, "settled"
    end
end
