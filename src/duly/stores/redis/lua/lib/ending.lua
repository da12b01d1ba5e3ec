-- ending: verdicts, one claim after the other. Most are plain; the others are settling's business.

local ending = {}
do
    local function load(ends, settlements)
        local ids, count = {}, 0
        for _, group in ipairs(ends) do
            for _, id in ipairs(group[4]) do
                count = count + 1
                ids[count] = id
            end
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

    -- Ends come in groups: epoch, nonce and start that they have in common, and their ids. A table or four values
    -- for each took the server longer than reading them. Of those with more to say than "done" the whole settlement
    -- is among the others, with its place in all the groups.
    -- The answers, as JSON, in the order of the ends; none if all of them are settled.
    function ending.settle_all(worker, ends, others)
        local settlements = by_place(others)
        load(ends, settlements)
        local answers, place, is_unanimous, hears = {}, 0, true, house.hears()
        for _, group in ipairs(ends) do
            local epoch, nonce, started_at = group[1], group[2], group[3]
            local fence = plain.fence_of(epoch, nonce, started_at)
            for _, id in ipairs(group[4]) do
                place = place + 1
                local answer, said = "settled", settlements[place]
                if not hears then -- everything stands still: only late verdicts can come
                    answer = "lost"
                elseif said or not plain.finish(id, fence) then
                    answer = need("settling").settle_one(said or { id, epoch, nonce, "done", started_at }, worker)
                end
                answers[place] = answer
                is_unanimous = is_unanimous and answer == "settled"
            end
        end
        return is_unanimous and "[]" or '["' .. concat(answers, '","') .. '"]'
    end
end
