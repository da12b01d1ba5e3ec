-- ending: verdicts, one claim after the other. Most are plain; the others are settling's business.

local ending = {}
do
    local WIDTH = 4 -- values of an end that has nothing more to say: id, epoch, nonce, started_at

    local function load(ends, settlements)
        local ids = {}
        for at = 1, #ends, WIDTH do
            ids[#ids + 1] = ends[at]
        end
        for _, settlement in pairs(settlements) do
            for _, request in ipairs(settlement[6]) do
                ids[#ids + 1] = request[1]
            end
        end
        stored.load(ids)
    end

    local function by_place(others)
        local settlements = {}
        for _, other in ipairs(others) do
            settlements[other[1]] = other[2]
        end
        return settlements
    end

    -- All ends stand in one flat list: a table for each took the server longer than reading them. Of those with
    -- more to say than "done" the whole settlement is among the others, with its place.
    -- The answers, as JSON, in the order of the ends; none if all of them are settled.
    function ending.settle_all(worker, ends, others)
        local settlements = by_place(others)
        load(ends, settlements)
        local answers, is_unanimous = {}, true
        for at = 1, #ends, WIDTH do
            local place = (at + WIDTH - 1) / WIDTH
            local id, epoch, nonce, started_at, said = ends[at], ends[at + 1], ends[at + 2], ends[at + 3], settlements[place]
            local answer = "settled"
            if not house.hears() then -- everything stands still: only late verdicts can come
                answer = "lost"
            elseif said or not plain.finish(id, epoch, nonce, started_at) then
                answer = need("settling").settle_one(said or { id, epoch, nonce, "done", started_at }, worker)
            end
            answers[place] = '"' .. answer .. '"'
            is_unanimous = is_unanimous and answer == "settled"
        end
        return is_unanimous and "[]" or "[" .. concat(answers, ",") .. "]"
    end
end
