-- put: creates, keeps, queues or supersedes by key, and says which. Guard and job are one atomic write.
-- [[id, generation, decision], …] in the order of the requests

local requests, ids, placed = {}, {}, {}
for place, values in ipairs(given) do
    requests[place] = read_request(values)
    ids[place] = values[1]
end
load(ids)
for place, request in ipairs(requests) do
    local id, generation, decision = put_one(request)
    placed[place] = "[" .. json(id) .. "," .. whole(generation) .. ',"' .. decision .. '"]'
end
flush()
ring()
return "[" .. concat(placed, ",") .. "]"
