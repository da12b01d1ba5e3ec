-- disown: hands back what the store believes a worker holds beyond what it says it holds: a release like
-- any other. [[how many]]

local rows, recovery = need("rows", "recovery")

pending.is_urgent = true
local held, strays, releases = {}, {}, {}
for _, fence in ipairs(given.held) do
    held[concat({ fence[1], format("%d", fence[2]), fence[3] }, " ")] = true
end
for _, row in ipairs(recovery.loans_of(given.worker)) do
    if not held[concat({ row.id, format("%d", row.epoch), row.nonce }, " ")] then
        strays[#strays + 1] = row
    end
end
rows.sort(strays)
for place, row in ipairs(strays) do
    releases[place] = { row.id, row.epoch, row.nonce, "release", false, {}, false, "its claim was never received" }
end
ending.settle_all(given.worker, releases)
flush()
pending.ring()
return format("[[%d]]", #strays)
