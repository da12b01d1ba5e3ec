-- explain: one job and everything that decides whether it is lent now; the caller finds the words.
-- [[job], [now, ready_at], [run in front, its worker, end of its lease], [[scope:name, until, reason], …],
--  [[name, whether its lease holds, card], …]] or [] where there is no such job

local rows, serials, showing = need("rows", "serials", "showing")

local row = rows.of(given.id)
if not row then
    return "[]"
end

local front = "[]"
local first = row.serial and serials.rows_in(serials.view_of(row.serial).r)[1]
if first then
    front = show_all({ first.id, first.worker, workers.lease_end(first.worker) }, 3)
end
local held, present = {}, {}
local found = call("HGETALL", prefix .. "switches")
for place = 1, #found, 2 do
    local _, closes_at, reason = cmsgpack.unpack(found[place + 1])
    held[#held + 1] = show_all({ found[place], closes_at, reason }, 3)
end
found = call("HGETALL", prefix .. "workers")
for place = 1, #found, 2 do
    local presence = workers.presence_of(found[place])
    present[#present + 1] = show_all({ workers.has_lease(found[place]), presence.card }, 2)
end
return concat({
    "[" .. showing.rows({ row }, true),
    "[" .. whole(now) .. "," .. whole(row.ready_at) .. "]",
    front,
    "[" .. concat(held, ",") .. "]",
    "[" .. concat(present, ",") .. "]]",
}, ",")
