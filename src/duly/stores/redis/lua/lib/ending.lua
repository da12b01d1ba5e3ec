-- ending: verdicts, one claim after the other. Most are plain; the others are settling's business.

local ending = {}
do
    local function load(settlements)
        local ids = {}
        for place = 1, #settlements do
            ids[#ids + 1] = settlements[place][1]
            for _, request in ipairs(settlements[place][6] or {}) do
                ids[#ids + 1] = request[1]
            end
        end
        stored.load(ids)
    end

    -- The answers, as JSON, in the order of the settlements.
    function ending.settle_all(worker, settlements)
        load(settlements)
        local answers = {}
        for place = 1, #settlements do
            local said = settlements[place]
            local is_short = said[4] == "done" and said[6] == nil
            if not house.hears() then -- everything stands still: only late verdicts can come
                answers[place] = '"lost"'
            elseif is_short and plain.finish(said[1], said[2], said[3], said[5]) then
                answers[place] = '"settled"'
            else
                answers[place] = '"' .. need("settling").settle_one(said, worker) .. '"'
            end
        end
        return "[" .. concat(answers, ",") .. "]"
    end
end
