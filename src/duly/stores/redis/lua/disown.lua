-- disown: hands back what the store believes a worker holds beyond what it says it holds: a release like
-- any other. A claim of it that is still on its way will lend nothing. [[how many]]

local rows, recovery = need("rows", "recovery")

pending.is_urgent = true
local held, strays, ends, releases = {}, {}, {}, {}
for _, fence in ipairs(given.held) do
    held[concat({ fence[1], format("%d", fence[2]), fence[3] }, " ")] = true
end
-- One that comes after a later one knows nothing of what was lent since.
local is_late = workers.has_disowned(given.worker, given.asked)
for _, row in ipairs(is_late and {} or recovery.loans_of(given.worker)) do
    if not held[concat({ row.id, format("%d", row.epoch), row.nonce }, " ")] then
        strays[#strays + 1] = row
    end
end
rows.sort(strays)
for place, row in ipairs(strays) do
    ends[place] = { row.epoch, row.nonce, false, { row.id } }
    releases[place] = {
        place,
        { row.id, row.epoch, row.nonce, "release", false, {}, false, "its claim was never received" },
    }
end
ending.settle_all(given.worker, ends, releases)
if not is_late then
    workers.disown(given.worker, given.asked)
end
flush()
pending.ring()
return format("[[%d]]", #strays)
