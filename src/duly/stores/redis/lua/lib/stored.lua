-- stored: jobs as they lie in the store, packed; false where there is none, true where a row has taken over.

local NOBODYS = "-" -- the nonce of a job that is not on loan: no claim has it

local stored = {
    texts = {},
    serials = {}, -- those that were looked at or changed in this call
}
do
    local texts = stored.texts

    -- Read many with few commands.
    function stored.load(ids)
        local missing, count = {}, 0
        for place = 1, #ids do
            local id = ids[place]
            if texts[id] == nil then -- one that comes twice is read twice
                count = count + 1
                missing[count] = id
            end
        end
        for first = 1, count, PORTION do
            local last = math.min(first + PORTION - 1, count)
            local found = call("HMGET", prefix .. "state", unpack(missing, first, last))
            for place = first, last do
                texts[missing[place]] = found[place - first + 1]
            end
        end
    end
end
