-- report: progress of running jobs; dropped in silence where the fence no longer holds.
-- []

write_though_memory_is_full()
for _, values in ipairs(given) do
    local row = row_of(values[1])
    if fence_holds(row, values[2], values[3]) then
        row.has_progress = true
        dirty[row.id] = row
        write("progress", row.id, values[4])
    end
end
flush()
return "[]"
