-- workers: everybody who has not left, when it was last heard of, and whether its lease holds.
-- [[card, moment, whether], …]

local shown = {}
local found = call("HGETALL", prefix .. "workers")
for place = 1, #found, 2 do
    local presence = workers.presence_of(found[place])
    shown[#shown + 1] = show_all({ presence.card, presence.seen_at, workers.has_lease(found[place]) }, 3)
end
return "[" .. concat(shown, ",") .. "]"
