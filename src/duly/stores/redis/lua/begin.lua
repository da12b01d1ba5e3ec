-- begin: marks bodies as started before they start. Those not answered must not start.
-- [[place, …]] of the fences that may begin

local rows, lifecycle = need("rows", "lifecycle")

pending.is_urgent = true
local ids, begun = {}, {}
for place, fence in ipairs(given.fences) do
    ids[place] = fence[1]
end
stored.load(ids)
for place, fence in ipairs(given.fences) do
    local row = rows.of(fence[1])
    if lifecycle.fence_holds(row, fence[2], fence[3]) and not lifecycle.order_for(row) then
        row.has_begun = true
        row.began_isolated = given.isolated
        if given.once then -- the task may have become so after the request: what counts is how the body starts
            row.is_at_most_once = true
            rows.open(row).delivery = "at_most_once"
        end
        rows.touch(row)
        begun[#begun + 1] = format("%d", place - 1)
    end
end
flush()
return "[[" .. concat(begun, ",") .. "]]"
