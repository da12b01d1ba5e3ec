-- report: progress of running jobs; dropped in silence where the fence no longer holds.
-- []

local rows, lifecycle = need("rows", "lifecycle")

pending.is_urgent = true
for _, values in ipairs(given) do
    local row = rows.of(values[1])
    if lifecycle.fence_holds(row, values[2], values[3]) then
        row.has_progress = true
        rows.touch(row)
        pending.write("progress", row.id, values[4])
    end
end
flush()
return "[]"
