-- explain: one job and everything that decides whether it is lent now; the caller finds the words.
-- [[job], [now, ready_at], [run in front, its worker, end of its lease], [[scope:name, until, reason], …],
--  [[name, whether its lease holds, card], …]] or [] where there is no such job

local row = row_of(given.id)
if not row then
    return "[]"
end

local serial, front = serial_of(row), "[]"
local first = serial and rows_in(serial, view_of(serial).r)[1]
if first then
    front = show_all({ first.id, first.worker, lease_end(first.worker) }, 3)
end
local held, present = {}, {}
local found = call("HGETALL", prefix .. "switches")
for place = 1, #found, 2 do
    local _, closes_at, reason = cmsgpack.unpack(found[place + 1])
    held[#held + 1] = show_all({ found[place], closes_at, reason }, 3)
end
found = call("HGETALL", prefix .. "workers")
for place = 1, #found, 2 do
    local presence = presence_of(found[place])
    present[#present + 1] = show_all({ has_lease(found[place]), presence.card }, 2)
end
return concat({
    "[" .. show_rows({ row }, true),
    "[" .. whole(now) .. "," .. whole(row.ready_at) .. "]",
    front,
    "[" .. concat(held, ",") .. "]",
    "[" .. concat(present, ",") .. "]]",
}, ",")
