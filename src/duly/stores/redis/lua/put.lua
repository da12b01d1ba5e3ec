-- put: creates, keeps, queues or supersedes by key, and says which. Guard and job are one atomic write.
-- {requests: [request, …]}, or {pattern: request, each: [id, body, id, body, …]} where they differ in nothing else.
-- [generation of the first] if all were created, each with the next; else [[id, generation, decision], …]

local ids, bodies, generations, decisions = {}, {}, {}, {}
local is_straight = true

local function put(place, request)
    local generation = stored.texts[request[1]] == false and plain.create(request)
    if generation then
        generations[place], decisions[place] = generation, "created"
    else
        local requests = need("requests")
        is_straight = false
        ids[place], generations[place], decisions[place] = requests.put_one(requests.read(request))
    end
end

if given.pattern then
    local request, each = given.pattern, given.each
    for place = 1, #each / 2 do
        ids[place], bodies[place] = each[2 * place - 1], each[2 * place]
    end
    stored.load(ids)
    for place = 1, #ids do
        request[1], request[20] = ids[place], bodies[place]
        put(place, request)
    end
else
    for place, request in ipairs(given.requests) do
        ids[place] = request[1]
    end
    stored.load(ids)
    for place, request in ipairs(given.requests) do
        put(place, request)
    end
end
flush()
pending.ring()
if is_straight and ids[1] then
    return "[" .. whole(generations[1]) .. "]"
end
local placed = {}
for place = 1, #ids do
    placed[place] = "[" .. json(ids[place]) .. "," .. whole(generations[place]) .. ',"' .. decisions[place] .. '"]'
end
return "[" .. concat(placed, ",") .. "]"
