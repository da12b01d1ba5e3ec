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
        }
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
