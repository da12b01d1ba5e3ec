-- showing: a row as JSON, in the order duly.stores.redis.packing reads it.

local showing = {}
do
    local function ready_at_of(row)
        if row.state == "waiting" then
            return row.ready_at
        end
        return row.state == "running" and workers.lease_end(row.worker) or nil
    end

    -- Texts that live beside the rows, for many rows at once.
    function showing.texts_of(name, found)
        local answers = {}
        for first = 1, #found, PORTION do
            local last = math.min(first + PORTION - 1, #found)
            local ids = {}
            for place = first, last do
                ids[#ids + 1] = found[place].id
            end
            local part = call("HMGET", prefix .. name, unpack(ids))
            for place = first, last do
                answers[place] = part[place - first + 1] or nil
            end
        end
        return answers
    end

    local function history_of(row)
        if row.lines == 0 then
            return "[]"
        end
        local lines = row.lines > 1 and call("LRANGE", prefix .. "history:" .. row.id, 0, -1) or {}
        if row.story then
            table.insert(lines, 1, row.story)
        end
        return "[" .. concat(lines, ",") .. "]"
    end

    local function show_row(row, body, beside, with_history)
        local rest, lane, failure = rows.open(row), naming.lane_named(row.lane), rows.failure_of(row)
        local values = {
            row.id,
            lane.task,
            lane.queue,
            lane.priority,
            rest.key,
            row.serial,
            row.generation,
            row.state,
            ready_at_of(row),
            rest.due,
            row.epoch,
            row.attempt,
            rest.crashes,
            rest.deferrals,
            rest.cycle,
            rest.created_at,
            row.finished_at,
            row.worker,
            row.reason,
            row.has_error and beside.error or nil,
            row.has_result and beside.result or nil,
            row.is_parked or false,
            row.is_suspect or false,
            rest.superseded_by,
            rest.wish,
            rest.expires_at,
            rest.tick,
            rest.delivery,
            row.has_progress and beside.progress or nil,
            failure and failure.name,
            failure and failure.at,
        }
        local history = with_history and history_of(row) or "[]"
        return show_all(values, 31):sub(1, -2) .. "," .. (body or '"",""') .. "," .. history .. "]"
    end

    function showing.rows(found, with_history)
        local bodies, errors = showing.texts_of("body", found), showing.texts_of("error", found)
        local results, progress = showing.texts_of("result", found), showing.texts_of("progress", found)
        local shown = {}
        for place, row in ipairs(found) do
            local beside = { error = errors[place], result = results[place], progress = progress[place] }
            shown[place] = show_row(row, bodies[place], beside, with_history)
        end
        return "[" .. concat(shown, ",") .. "]"
    end
end
