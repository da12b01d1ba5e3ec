-- deliver: puts what relays bring from an outbox, each request once, and per serial never an older after a newer.
-- {outbox, remembered, parcels: [[number, age, request], …]}; [[id, generation, decision], …] in their order

local closes_at = now + given.remembered
local ids, placed = {}, {}
for place, parcel in ipairs(given.parcels) do
    ids[place] = parcel[3][1]
end
stored.load(ids)

-- The straight way where there is nothing to decide, as in put; delays count from the request's own moment.
local function put(request, age)
    request[21] = now - age
    local generation = stored.texts[request[1]] == false and plain.create(request)
    if generation then
        return request[1], generation, "created"
    end
    local requests = need("requests")
    return requests.put_one(requests.read(request))
end

local function deliver(number, age, request)
    local id, serial = request[1], request[6]
    if delivered.has(id) then -- its relay died before it could say so, or slept past its lease
        local row = need("rows").of(id)
        return id, row and row.generation or 0, "kept"
    end
    local name = serial and given.outbox .. "|" .. serial
    if name and delivered.number_of(name) >= number then
        pending.tell("superseded")
        return id, 0, "pending" -- not remembered: another relay may bring it in its order
    elseif name then
        delivered.set_number(name, number, closes_at)
    end
    delivered.remember(id, closes_at)
    return put(request, age)
end

delivered.forget(2 * #ids) -- as quick as it grows, whatever prune finds time for
for place, parcel in ipairs(given.parcels) do
    local id, generation, decision = deliver(parcel[1], parcel[2], parcel[3])
    placed[place] = "[" .. json(id) .. "," .. whole(generation) .. ',"' .. decision .. '"]'
end
flush()
pending.ring()
return "[" .. concat(placed, ",") .. "]"
