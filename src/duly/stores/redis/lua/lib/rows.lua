-- rows: jobs as this call sees them. A row is read once, changed in place, and written by the next flush.
-- What every claim and settle touches is at hand; the rest of a row stays packed until `open` asks for it.

local rows = { FINISHED = { done = true, failed = true, cancelled = true, skipped = true } }
do
    local PARKED, SUSPECT, ERROR, RESULT, PROGRESS = 1, 2, 4, 8, 16
    local AT_MOST_ONCE, BEGUN, ISOLATED, ORDERS, KEYED, EXPIRES = 32, 64, 128, 256, 512, 1024
    local band = bit.band
    local by_id, dirty = {}, {}

    function rows.open(row)
        local rest = row.rest
        if not rest then
            rest = {}
            rest.crashes, rest.deferrals, rest.cycle, rest.first_failure, rest.superseded_by, rest.wish, rest.created_at, rest.expires_at, rest.key, rest.overlap, rest.per_key, rest.perpetual, rest.keep_failed, rest.tick, rest.delivery, rest.expires_after =
                cmsgpack.unpack(row.packed_rest)
            rest.due, rest.was_expires_at = row.due, rest.expires_at
            row.rest = rest
        end
        return rest
    end

    -- What the indexes say of a row as it is stored; `index` compares with it.
    function rows.remember(row)
        row.was_state, row.was_parked, row.was_ready_at = row.state, row.is_parked, row.ready_at
        row.was_lane, row.was_worker, row.was_generation = row.lane, row.worker, row.generation
    end

    local function unpack_flags(row, flags)
        row.is_parked = band(flags, PARKED) > 0
        row.is_suspect = band(flags, SUSPECT) > 0
        row.has_error = band(flags, ERROR) > 0
        row.has_result = band(flags, RESULT) > 0
        row.has_progress = band(flags, PROGRESS) > 0
        row.is_at_most_once = band(flags, AT_MOST_ONCE) > 0
        row.has_begun = band(flags, BEGUN) > 0
        row.began_isolated = band(flags, ISOLATED) > 0
        row.has_orders = band(flags, ORDERS) > 0
        row.is_keyed = band(flags, KEYED) > 0
        row.has_expiry = band(flags, EXPIRES) > 0
    end

    -- A line of its history, as it is shown.
    local function line_of(row, at, event, started_at, words)
        return concat({
            "[" .. whole(at),
            json(event),
            format("%d,%d,%d", row.epoch, row.generation, row.attempt),
            json(row.worker),
            show(started_at or nil),
            json(words) .. "]",
        }, ",")
    end

    local function unpack_row(id, text)
        local state, flags, lane, keep_done, epoch, lines, finished_at, nonce, worker, reason, story, shown, due, generation, ready_at, attempt, serial, packed_rest, born =
            cmsgpack.unpack(text)
        local row = {
            id = id,
            state = state,
            generation = generation,
            born = tonumber(born),
            due = due,
            epoch = epoch,
            lines = lines,
            attempt = attempt,
            ready_at = ready_at,
            finished_at = finished_at,
            keep_done = keep_done,
            nonce = nonce,
            worker = worker,
            lane = lane,
            reason = reason,
            shown = shown,
            story = story,
            serial = serial,
            packed_rest = packed_rest,
            was_state = state,
            was_ready_at = ready_at,
            was_lane = lane,
            was_worker = worker,
            was_generation = generation,
        }
        if story ~= nil and type(story) ~= "string" then -- by plain: when the run started is all that only it knew
            row.story = line_of(row, finished_at, "done", story, "")
        end
        if flags ~= 0 then
            unpack_flags(row, flags)
            row.was_parked = row.is_parked
        end
        return row
    end

    local function flags_of(row)
        local flags = row.is_parked and PARKED or 0
        flags = row.is_suspect and flags + SUSPECT or flags
        flags = row.has_error and flags + ERROR or flags
        flags = row.has_result and flags + RESULT or flags
        flags = row.has_progress and flags + PROGRESS or flags
        flags = row.is_at_most_once and flags + AT_MOST_ONCE or flags
        flags = row.has_begun and flags + BEGUN or flags
        flags = row.began_isolated and flags + ISOLATED or flags
        flags = row.has_orders and flags + ORDERS or flags
        flags = row.is_keyed and flags + KEYED or flags
        return row.has_expiry and flags + EXPIRES or flags
    end

    -- The part of a claim that only changes with the rest of the row, ready to be sent.
    local function shown_of(row, rest)
        local numbers = format("%d,%d,%d,%d,", row.attempt, rest.crashes, rest.deferrals, rest.cycle)
        return concat({
            show(rest.key) .. "," .. numbers .. (row.is_suspect and "true" or "false"),
            show(rest.tick),
            show(rest.first_failure),
        }, ",")
    end

    local function seal(row)
        local rest = row.rest
        row.has_orders = rest.superseded_by ~= nil or rest.wish ~= nil
        row.has_expiry = rest.expires_at ~= nil
        row.due, row.shown = rest.due, shown_of(row, rest)
        row.packed_rest = cmsgpack.pack(
            rest.crashes,
            rest.deferrals,
            rest.cycle,
            rest.first_failure,
            rest.superseded_by,
            rest.wish,
            rest.created_at,
            rest.expires_at,
            rest.key,
            rest.overlap,
            rest.per_key,
            rest.perpetual,
            rest.keep_failed,
            rest.tick,
            rest.delivery,
            rest.expires_after
        )
    end

    local function pack(row)
        if row.rest then
            seal(row)
        end
        return cmsgpack.pack(
            row.state,
            flags_of(row),
            row.lane,
            row.keep_done,
            row.epoch,
            row.lines,
            row.finished_at,
            row.nonce,
            row.worker,
            row.reason,
            row.story,
            row.shown,
            row.due,
            row.generation,
            row.ready_at,
            row.attempt,
            row.serial,
            row.packed_rest,
            format("%016d", row.born),
            row.born % 128 -- `plain` says why
        )
    end

    -- The row is to be written.
    function rows.touch(row)
        dirty[row.id] = row
    end

    function rows.add(row)
        by_id[row.id] = row
        stored.texts[row.id] = true
    end

    function rows.drop(row)
        dirty[row.id], by_id[row.id] = nil, nil
        stored.texts[row.id] = false
    end

    -- The job with this id, or nil.
    function rows.of(id)
        local row = by_id[id]
        if row then
            return row
        end
        if stored.texts[id] == nil then
            stored.load({ id })
        end
        local text = stored.texts[id]
        if not text then
            return nil
        end
        row = unpack_row(id, text)
        rows.add(row)
        return row
    end

    function rows.all_of(ids)
        stored.load(ids)
        local found = {}
        for place = 1, #ids do
            found[#found + 1] = rows.of(ids[place])
        end
        return found
    end

    -- In the order in which they came into the store.
    function rows.sort(found)
        table.sort(found, function(one, other)
            return one.born < other.born
        end)
    end

    -- The first line is kept in the row, which most jobs never outgrow; later ones in a list.
    function rows.note(row, event, words, started_at)
        local line = line_of(row, now, event, started_at, words)
        row.lines = row.lines + 1
        dirty[row.id] = row
        if row.lines == 1 then
            row.story = line
        else
            pending.append("history:" .. row.id, line)
        end
    end

    -- Only the newest lines are kept: a perpetual must not grow for ever.
    function rows.trim_history(row, lines)
        if row.lines > lines then
            row.lines, row.story = lines, nil
            pending.trim("history:" .. row.id, lines)
        end
    end

    function rows.forget_progress(row)
        if row.has_progress then
            row.has_progress = false
            pending.write("progress", row.id, false)
        end
    end

    -- The name of a job's error and when it happened, or nil.
    function rows.failure_of(row)
        if not row.has_error then
            return nil
        elseif not row.failure then
            local name, at = cmsgpack.unpack(call("HGET", prefix .. "failure", row.id))
            row.failure = { name = name, at = at }
        end
        return row.failure
    end

    -- By each name jobs are found by generation, and names by the moment of the last failure: it is negative, so
    -- that the head of a queue is the latest.
    local function index_failure(row, failure, is_there)
        pending.rank("fingerprint:" .. failure.name, row.id, is_there and row.generation or false)
        pending.queue("failures", failure.name, "failed:" .. failure.name, row.id, is_there and -failure.at or false)
    end

    function rows.forget_error(row)
        local failure = rows.failure_of(row)
        if failure then
            index_failure(row, failure, false)
            pending.write("failure", row.id, false)
            pending.write("error", row.id, false)
            row.has_error, row.failure = false, nil
            dirty[row.id] = row
        end
    end

    -- An error comes with its name, which is given where the text is made.
    function rows.set_error(row, text, name, at)
        rows.forget_error(row)
        row.has_error, row.failure = true, { name = name, at = at or now }
        index_failure(row, row.failure, true)
        pending.write("failure", row.id, cmsgpack.pack(name, row.failure.at))
        pending.write("error", row.id, text)
        dirty[row.id] = row
    end

    -- An operator's or a newer request's wish, which the run learns at its next write.
    function rows.set_order(row, field, value)
        rows.open(row)[field] = value
        row.has_orders = true
        dirty[row.id] = row
    end

    -- After what plain has to say of the same jobs: rows came later.
    pending.writers[#pending.writers + 1] = function()
        for id, row in pairs(dirty) do
            pending.write("state", id, pack(row))
        end
        dirty = {}
    end
end
