-- selecting: which jobs a selection means, newest request first. The error text is compared by the caller.

local selecting = {}
do
    local function as_set(values)
        if not values[1] then
            return nil
        end
        local set = {}
        for _, value in ipairs(values) do
            set[value] = true
        end
        return set
    end

    function selecting.read(values)
        return {
            ids = values.ids,
            tasks = as_set(values.tasks),
            states = as_set(values.states),
            queues = as_set(values.queues),
            spares = as_set(values.spares),
            key = values.key or nil,
            fingerprint = values.fingerprint or nil,
            with_error = values.with_error or nil,
        }
    end

    local ERROR = 4 -- as `rows` packs it
    local LEADS = { -- how a packed row begins: with the length and the first letter of its state
        ["\164d"] = "done",
        ["\166f"] = "failed",
        ["\167w"] = "waiting",
        ["\167r"] = "running",
        ["\167s"] = "skipped",
        ["\169c"] = "cancelled",
    }

    -- Whether a packed row can match, by the few values that tell: unpacking a whole row costs ten times as much.
    local function can_match(text, selection)
        if selection.states and not selection.states[LEADS[text:sub(1, 2)]] then
            return false
        elseif selection.with_error and bit.band(select(3, cmsgpack.unpack_limit(text, 2)), ERROR) == 0 then
            return false
        elseif not (selection.tasks or selection.queues or selection.spares) then
            return true
        end
        local lane = naming.lane_named(select(4, cmsgpack.unpack_limit(text, 3)))
        return (not selection.tasks or selection.tasks[lane.task])
            and (not selection.queues or selection.queues[lane.queue])
            and not (selection.spares and selection.spares[lane.queue])
    end

    -- Whether rows must be looked at to know which are meant.
    function selecting.is_narrow(selection)
        return (selection.states or selection.tasks or selection.queues or selection.spares or selection.with_error) and true
            or false
    end

    -- Whether there is any job of the tasks, queues and states asked for, by the counts that are kept anyway.
    function selecting.is_there(selection)
        local counts = call("HKEYS", prefix .. "tally")
        for _, field in ipairs(counts) do
            local _, last, state = field:find("^(%l+):")
            if state and (not selection.states or selection.states[state]) then
                local task, queue = naming.parse_group(field:sub(last + 1))
                local is_of = (not selection.tasks or selection.tasks[task]) and (not selection.queues or selection.queues[queue])
                if is_of then
                    return true
                end
            end
        end
        return false
    end

    -- Two letters whose small forms Python writes in ASCII, as they are and as JSON escapes them.
    local ODD = { "\226\132\170", "\196\176", "\\u212", "\\u013" }

    local function may_hold(text, wanted)
        if text:lower():find(wanted, 1, true) then
            return true
        end
        for place = 1, 4 do
            if text:find(ODD[place], 1, true) then
                return true
            end
        end
        return false
    end

    -- Those in one of whose texts the wanted one may stand: small letters, of those that JSON writes as they are.
    function selecting.plausible(ids, wanted, names)
        local kept = {}
        for first = 1, #ids, PORTION do
            local last = math.min(first + PORTION - 1, #ids)
            local plausible = {}
            for _, name in ipairs(names) do
                local texts = call("HMGET", prefix .. name, unpack(ids, first, last))
                for place = 1, #texts do
                    plausible[place] = plausible[place] or (texts[place] and may_hold(texts[place], wanted))
                end
            end
            for place = first, last do
                if plausible[place - first + 1] then
                    kept[#kept + 1] = ids[place]
                end
            end
        end
        return kept
    end

    -- The first of these ids that can match, at most so many. Nothing is remembered of the others.
    function selecting.sifted(ids, selection, most)
        local kept, count = {}, 0
        for first = 1, #ids, PORTION do
            local last = math.min(first + PORTION - 1, #ids)
            local texts = call("HMGET", prefix .. "state", unpack(ids, first, last))
            for place = first, last do
                local text = texts[place - first + 1]
                if text and can_match(text, selection) then
                    count = count + 1
                    kept[count] = ids[place]
                    if count == most then
                        return kept
                    end
                end
            end
        end
        return kept
    end

    local function matches(row, selection)
        local lane = naming.lane_named(row.lane)
        return (not selection.tasks or selection.tasks[lane.task])
            and (not selection.states or selection.states[row.state])
            and (not selection.queues or selection.queues[lane.queue])
            and not (selection.spares and selection.spares[lane.queue])
            and (not selection.key or (row.is_keyed and rows.open(row).key == selection.key))
            and (not selection.fingerprint or (row.has_error and rows.failure_of(row).name == selection.fingerprint))
    end

    local function newest_first(one, other)
        return one.generation > other.generation
    end

    function selecting.matching(ids, selection)
        local seen, found = {}, {}
        for _, row in ipairs(rows.all_of(ids)) do
            if not seen[row.id] and matches(row, selection) then
                seen[row.id] = true
                found[#found + 1] = row
            end
        end
        table.sort(found, newest_first)
        return found
    end
end
