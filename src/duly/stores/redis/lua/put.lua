-- put: creates, keeps, queues or supersedes by key, and says which. Guard and job are one atomic write.
-- [[id, generation, decision], …] in the order of the requests

local ids, placed = {}, {}
for place, request in ipairs(given) do
    ids[place] = request[1]
end
stored.load(ids)
for place, request in ipairs(given) do
    local id, decision = request[1], "created"
    local generation = stored.texts[id] == false and plain.create(request)
    if not generation then
        local requests = need("requests")
        id, generation, decision = requests.put_one(requests.read(request))
    end
    placed[place] = "[" .. json(id) .. "," .. whole(generation) .. ',"' .. decision .. '"]'
end
flush()
pending.ring()
return "[" .. concat(placed, ",") .. "]"
