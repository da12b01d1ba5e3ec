-- rows: jobs as this call sees them. A row is read once, changed in place, and written by `flush`.
-- What every claim and settle touches is at hand; the rest of a row stays packed until `open` asks for it.

local NOBODYS = "-" -- the nonce of a job that is not on loan: no claim has it
local texts, rows, dirty = {}, {}, {} -- by id: as stored, false where there is none; as changed; to be written
local parse_group, lane_named, lane_of, numbered, denumbered, open, remember, pack_row, load, row_of
local rows_of, oldest_first, shown_worker, note, trim_history, forget_progress, set_error, count_up, tell
do
    local band, bor = bit.band, bit.bor

    local PARKED, SUSPECT, ERROR, RESULT, PROGRESS = 1, 2, 4, 8, 16
    local AT_MOST_ONCE, BEGUN, ISOLATED, ORDERS, KEYED, EXPIRES = 32, 64, 128, 256, 512, 1024

    local lanes_known = {}

    -- A lane is a priority and a group; a group is a task and a queue, told apart by the length of the first.
    local function group_of(task, queue_name)
        return format("%d:", #task) .. task .. queue_name
    end

    function parse_group(group)
        local _, last, length = group:find("^(%d+):")
        local middle = last + tonumber(length)
        return group:sub(last + 1, middle), group:sub(middle + 1)
    end

    function lane_named(name)
        local lane = lanes_known[name]
        if not lane then
            local _, last, priority = name:find("^(-?%d+):")
            local group = name:sub(last + 1)
            local task, queue_name = parse_group(group)
            lane = {
                name = name,
                group = group,
                priority = tonumber(priority),
                task = task,
                queue = queue_name,
                ready = "ready:" .. name,
                shown = json(task) .. "," .. json(queue_name),
            }
            lanes_known[name] = lane
        end
        return lane
    end

    function lane_of(task, queue_name, priority)
        return lane_named(format("%d:", priority) .. group_of(task, queue_name))
    end

    -- Equal scores go by the text of the member; so it begins with the number that decides between equals.
    function numbered(number, id)
        return format("%016.0f", number) .. id
    end

    function denumbered(member)
        return member:sub(17)
    end

    function open(row)
        local rest = row.rest
        if not rest then
            rest = {}
            rest.crashes, rest.deferrals, rest.cycle, rest.due, rest.first_failure, rest.superseded_by, rest.wish, rest.created_at, rest.expires_at, rest.key, rest.serial, rest.overlap, rest.per_key, rest.perpetual, rest.keep_failed, rest.tick, rest.delivery =
                cmsgpack.unpack(row.packed_rest)
            rest.was_expires_at = rest.expires_at
            row.rest = rest
        end
        return rest
    end

    -- What the indexes say of a row as it is stored; `index` compares with it.
    function remember(row)
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

    local function unpack_row(id, text)
        local state, flags, generation, born, epoch, lines, attempt, ready_at, finished_at, keep_done, nonce, worker, lane, reason, shown, story, packed_rest =
            cmsgpack.unpack(text)
        local row = {
            id = id,
            state = state,
            generation = generation,
            born = born,
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
            packed_rest = packed_rest,
            was_state = state,
            was_ready_at = ready_at,
            was_lane = lane,
            was_worker = worker,
            was_generation = generation,
        }
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
            whole(rest.due),
            show(rest.tick),
            show(rest.first_failure),
        }, ",")
    end

    local function seal(row)
        local rest = row.rest
        row.has_orders = rest.superseded_by ~= nil or rest.wish ~= nil
        row.has_expiry = rest.expires_at ~= nil
        row.shown = shown_of(row, rest)
        row.packed_rest = cmsgpack.pack(
            rest.crashes,
            rest.deferrals,
            rest.cycle,
            rest.due,
            rest.first_failure,
            rest.superseded_by,
            rest.wish,
            rest.created_at,
            rest.expires_at,
            rest.key,
            rest.serial,
            rest.overlap,
            rest.per_key,
            rest.perpetual,
            rest.keep_failed,
            rest.tick,
            rest.delivery
        )
    end

    function pack_row(row)
        if row.rest then
            seal(row)
        end
        return cmsgpack.pack(
            row.state,
            flags_of(row),
            row.generation,
            row.born,
            row.epoch,
            row.lines,
            row.attempt,
            row.ready_at,
            row.finished_at,
            row.keep_done,
            row.nonce,
            row.worker,
            row.lane,
            row.reason,
            row.shown,
            row.story,
            row.packed_rest
        )
    end

    -- Read many rows with few commands.
    function load(ids)
        local missing = {}
        for place = 1, #ids do
            local id = ids[place]
            if texts[id] == nil then
                texts[id] = false
                missing[#missing + 1] = id
            end
        end
        for first = 1, #missing, PORTION do
            local last = math.min(first + PORTION - 1, #missing)
            local found = call("HMGET", prefix .. "state", unpack(missing, first, last))
            for place = first, last do
                texts[missing[place]] = found[place - first + 1]
            end
        end
    end

    -- The job with this id, or nil.
    function row_of(id)
        local row = rows[id]
        if not row then
            if texts[id] == nil then
                load({ id })
            end
            row = texts[id] and unpack_row(id, texts[id]) or nil
            rows[id] = row
        end
        return row
    end

    function rows_of(ids)
        load(ids)
        local found = {}
        for place = 1, #ids do
            found[#found + 1] = row_of(ids[place])
        end
        return found
    end

    function oldest_first(one, other)
        return one.born < other.born
    end

    local workers_shown = {}

    function shown_worker(worker)
        local shown = workers_shown[worker]
        if not shown then
            shown = json(worker)
            workers_shown[worker] = shown
        end
        return shown
    end

    -- The first line is kept in the row, which most jobs never outgrow; later ones in a list.
    function note(row, event, words, started_at)
        local line = concat({
            "[" .. now_shown,
            json(event),
            format("%d,%.0f,%d", row.epoch, row.generation, row.attempt),
            shown_worker(row.worker),
            show(started_at or nil),
            json(words) .. "]",
        }, ",")
        row.lines = row.lines + 1
        dirty[row.id] = row
        if row.lines == 1 then
            row.story = line
            return
        end
        local name = "history:" .. row.id
        local list = kept(appended, name)
        list[#list + 1] = line
    end

    -- Only the newest lines are kept: a perpetual must not grow for ever.
    function trim_history(row, lines)
        if row.lines > lines then
            row.lines, row.story = lines, nil
            trimmed["history:" .. row.id] = lines
        end
    end

    function forget_progress(row)
        if row.has_progress then
            row.has_progress = false
            write("progress", row.id, false)
        end
    end

    function set_error(row, text)
        row.has_error = text ~= nil
        write("error", row.id, text or false)
        dirty[row.id] = row
    end

    function count_up()
        local last = kept(hashes, "meta").last or call("HGET", prefix .. "meta", "last") or 0
        last = tonumber(last) + 1
        write("meta", "last", whole(last))
        return last
    end

    function tell(what)
        tally("=" .. what, 1)
    end
end
