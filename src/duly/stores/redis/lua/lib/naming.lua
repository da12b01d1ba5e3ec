-- naming: lanes, and members that sort as they should.
-- A lane is a priority and a group; a group is a task and a queue, told apart by the length of the first.

local naming = {}
do
    local lanes = {}

    function naming.parse_group(group)
        local _, last, length = group:find("^(%d+):")
        local middle = last + tonumber(length)
        return group:sub(last + 1, middle), group:sub(middle + 1)
    end

    function naming.lane_named(name)
        local lane = lanes[name]
        if not lane then
            local _, last, priority = name:find("^(-?%d+):")
            local group = name:sub(last + 1)
            local task, queue = naming.parse_group(group)
            lane = {
                name = name,
                group = group,
                priority = tonumber(priority),
                task = task,
                queue = queue,
                ready = "ready:" .. name,
                introduced = json(task) .. "," .. json(queue) .. ",",
            }
            lanes[name] = lane
        end
        return lane
    end

    function naming.lane_of(task, queue, priority)
        return naming.lane_named(format("%d:%d:", priority, #task) .. task .. queue)
    end

    -- Equal scores go by the text of the member; so it begins with the number that decides between equals.
    function naming.numbered(number, id)
        return format("%016d", number) .. id
    end

    function naming.denumbered(member)
        return member:sub(17)
    end
end
