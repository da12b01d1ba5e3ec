-- begin: marks bodies as started before they start. Those not answered must not start.
-- [[place, …]] of the fences that may begin

write_though_memory_is_full()
local ids, begun = {}, {}
for place, fence in ipairs(given.fences) do
    ids[place] = fence[1]
end
load(ids)
for place, fence in ipairs(given.fences) do
    local row = row_of(fence[1])
    if fence_holds(row, fence[2], fence[3]) and not order_for(row) then
        row.has_begun = true
        row.began_isolated = given.isolated
        dirty[row.id] = row
        begun[#begun + 1] = format("%d", place - 1)
    end
end
flush()
return "[[" .. concat(begun, ",") .. "]]"
