-- settling: per claim all or nothing: verdict, history line and follow-up requests, under the fence.

local settling = {}
do
    local NAMES = { -- how the history names the verdict it refused
        done = "Done",
        again = "Again",
        stop = "Stop",
        retry = "TryAgain",
        defer = "Defer",
        release = "Release",
        crash = "Crash",
        fail = "Fail",
        skip = "Skip",
    }

    -- Fields in the order duly.stores.redis.packing sends them; false or missing means absent.
    local function read_settlement(values)
        local follow_ups = {}
        for place, request in ipairs(values[6] or {}) do
            follow_ups[place] = requests.read(request)
        end
        return {
            id = values[1],
            epoch = values[2],
            nonce = values[3],
            event = values[4],
            started_at = values[5] or nil,
            follow_ups = follow_ups,
            arguments = values[7] or nil,
            reason = values[8] or "",
            error = values[9] or nil,
            after = values[10] or 0,
            at = values[11] or nil,
            counted = values[12],
            result = values[13] or nil,
            keep_result = values[14] or nil,
            fingerprint = values[15] or nil,
        }
    end

    -- This very claim ended the job: the answer was lost on the way, and the worker asks again.
    local function is_recorded(row, settlement)
        return rows.FINISHED[row.state] and row.epoch == settlement.epoch and row.nonce == settlement.nonce
    end

    local function refuse(row, settlement, worker)
        pending.tell("refused")
        if row then
            local name = NAMES[settlement.event]
            rows.note(row, "refused", "late " .. name .. " by " .. worker .. format(" at epoch %d", settlement.epoch))
        end
    end

    -- Only a request that will stand afterwards can take over what the run leaves undone.
    local function takes_effect(request)
        if request.clash == "seed" then
            return false
        end
        local window = request.serial and request.window and requests.window_of(request.serial)
        return clash.place(request, { waiting = {}, running = {}, window = window or nil }, now).creates
    end

    -- Requests for the run's own key: part of its settle, and never what supersedes it.
    local function own_requests(row, settlement)
        local own = {}
        if not row.is_keyed or not rows.open(row).key then
            return own
        end
        local task, key = naming.lane_named(row.lane).task, row.rest.key
        for _, request in ipairs(settlement.follow_ups) do
            if request.task == task and request.key == key and takes_effect(request) then
                own[#own + 1] = request
            end
        end
        return own
    end

    -- The newest request that waits behind this run for the same key.
    local function queued_behind(row)
        if not row.serial then
            return nil
        end
        local queued
        for _, other in ipairs(serials.rows_in(serials.waiting_in(serials.view_of(row.serial)))) do
            if rows.open(other).key == rows.open(row).key then
                queued = other.id
            end
        end
        return queued
    end

    local PLAIN = {}

    local function standing_of(row, settlement, own)
        local is_plain = not (row.is_keyed or row.has_orders or row.is_at_most_once)
        if is_plain and settlement.event ~= "crash" then
            return PLAIN
        end
        local rest = rows.open(row)
        local last = own[#own]
        return {
            superseded_by = rest.superseded_by,
            wish = rest.wish,
            queued = queued_behind(row) or (last and last.id),
            crashes = rest.crashes,
            is_spent = row.is_at_most_once and row.has_begun,
        }
    end

    local function wait_of(settlement)
        return settlement.at or now + settlement.after
    end

    local function replace_arguments(id, arguments)
        local old = cjson.decode("[" .. call("HGET", prefix .. "body", id) .. "]")
        pending.write("body", id, json(arguments) .. "," .. json(old[2]))
    end

    -- Failures, deaths in isolation and waits are counted apart; a new cycle starts from nothing.
    local function count(row, settlement, event)
        local said = settlement.event
        if said == "done" or said == "stop" or said == "fail" or said == "skip" or said == "release" then
            return
        end
        local rest = rows.open(row)
        if said == "again" and event == "again" then
            row.attempt, rest.crashes, rest.deferrals = 0, 0, 0
            rest.first_failure = nil
            row.is_suspect = false
            rest.cycle = rest.cycle + 1
            rest.due = wait_of(settlement)
            rest.expires_at = rest.expires_after and rest.due + rest.expires_after
            rows.trim_history(row, verdicts.HISTORY_LINES)
            if settlement.arguments and settlement.arguments ~= "" then
                replace_arguments(row.id, settlement.arguments)
            end
        elseif said == "retry" then
            row.attempt = row.attempt + 1
            rest.first_failure = rest.first_failure or now
        elseif said == "defer" then
            rest.deferrals = rest.deferrals + 1
        elseif said == "crash" then
            rest.crashes = rest.crashes + (settlement.counted and 1 or 0)
            row.is_suspect = true
        end
    end

    local function set_result(row, settlement)
        rows.forget_error(row)
        if settlement.result then
            row.has_result = true
            pending.write("result", row.id, settlement.result)
            if settlement.keep_result then
                pending.rank("results", row.id, now + settlement.keep_result)
            end
        end
    end

    local function goes_on(row, settlement, event)
        local ready_at = wait_of(settlement)
        if row.has_orders then
            local rest = rows.open(row)
            ready_at = rest.wish == "hurry" and now or ready_at
            rest.wish = nil
        end
        lifecycle.wait_again(row, event, ready_at)
    end

    local function write_conclusion(row, settlement, event, reason)
        if settlement.error then
            rows.set_error(row, settlement.error, settlement.fingerprint)
        end
        count(row, settlement, event)
        if verdicts.GOES_ON[event] then
            goes_on(row, settlement, event)
            return
        end
        if settlement.event == "done" and event == "done" then
            set_result(row, settlement)
        end
        local is_deleted = row.has_orders and rows.open(row).wish == "delete"
        lifecycle.finish(row, event, reason)
        if is_deleted then
            index.remove(row)
        end
    end

    -- A request queued from outside is newer than what this run wished for its own key.
    local function put_follow_ups(settlement, own, standing)
        local last = own[#own]
        local dropped = {}
        if last and standing.queued ~= last.id then
            for _, request in ipairs(own) do
                dropped[request] = true
            end
        end
        for _, request in ipairs(settlement.follow_ups) do
            if not dropped[request] then
                requests.put_one(request)
            end
        end
    end

    function settling.settle_one(values, worker)
        local settlement = read_settlement(values)
        local row = rows.of(settlement.id)
        if row and is_recorded(row, settlement) then
            return row.has_orders and rows.open(row).superseded_by and "superseded" or "settled"
        end
        if not lifecycle.fence_holds(row, settlement.epoch, settlement.nonce) then
            refuse(row, settlement, worker)
            return "lost"
        end
        local own = own_requests(row, settlement)
        local standing = standing_of(row, settlement, own)
        local event, reason, answer = verdicts.conclude(settlement, standing)
        rows.note(row, event, reason, settlement.started_at)
        write_conclusion(row, settlement, event, reason)
        if answer == "superseded" then
            pending.tell("superseded")
        elseif event ~= "cancel" then
            put_follow_ups(settlement, own, standing)
        end
        return answer
    end
end
