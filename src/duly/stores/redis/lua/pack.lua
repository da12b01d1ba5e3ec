-- pack: the next jobs in the order of their generations, with all that is known of them.
-- [[job, …], [[born, overlap, per_key, keep_done, keep_failed, perpetual, expires_after, first_failure,
-- when the result is forgotten], …]]

local rows, showing = need("rows", "showing")

local ids = call("ZRANGEBYSCORE", prefix .. "all", "(" .. whole(given.after), "+inf", "LIMIT", 0, given.limit)
local found, beside = rows.all_of(ids), {}
for place, row in ipairs(found) do
    local rest = rows.open(row)
    beside[place] = show_all({
        row.born,
        rest.overlap,
        rest.per_key,
        row.keep_done,
        rest.keep_failed,
        rest.perpetual,
        rest.expires_after,
        rest.first_failure,
        tonumber(call("ZSCORE", prefix .. "results", row.id) or nil),
    }, 9)
end
return "[" .. showing.rows(found, true) .. ",[" .. concat(beside, ",") .. "]]"
