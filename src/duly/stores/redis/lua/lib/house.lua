-- house: the notice at the door while everything is being carried elsewhere, or is arriving.

local house = { stage = call("HGET", prefix .. "house", "stage") or nil }
do
    -- Once everything stands still, only late verdicts can come.
    function house.hears()
        return not house.stage or house.stage == "sealed"
    end

    -- The notice as JSON, or an empty list.
    function house.shown()
        local found = call("HMGET", prefix .. "house", "stage", "move", "other", "cursor")
        if not found[1] then
            return "[]"
        end
        return "[" .. show_all({ found[1], found[2], found[3], tonumber(found[4]) }, 4) .. "]"
    end

    function house.put_up(stage, move, other)
        call("HSET", prefix .. "house", "stage", stage, "move", move, "other", other, "cursor", 0)
    end

    -- Whether the notice of this very move hangs there, in one of these stages.
    function house.is_at(move, stages)
        if call("HGET", prefix .. "house", "move") == move then
            for _, stage in ipairs(stages) do
                if stage == house.stage then
                    return true
                end
            end
        end
        return false
    end
end
