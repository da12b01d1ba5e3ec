-- switches: the lanes that stand still now, in the order they were first held. [[scope:name, until, reason], …]

local held = {}
local found = call("HGETALL", prefix .. "switches")
for place = 1, #found, 2 do
    local order, closes_at, reason = cmsgpack.unpack(found[place + 1])
    if not closes_at or closes_at > now then
        held[#held + 1] = { order = order, shown = show_all({ found[place], closes_at, reason }, 3) }
    end
end
table.sort(held, function(one, other)
    return one.order < other.order
end)
for place, switch in ipairs(held) do
    held[place] = switch.shown
end
return "[" .. concat(held, ",") .. "]"
