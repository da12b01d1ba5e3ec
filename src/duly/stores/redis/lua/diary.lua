-- diary: entries not older than a moment, newest first; reads, never changes. [[number, at, text, until], …]

local below = given.before and "(" .. whole(given.before) or "+inf"
local shown = {}
local numbers = call("ZREVRANGEBYSCORE", prefix .. "diary:" .. given.kind, below, "-inf", "LIMIT", 0, given.limit)
for _, number in ipairs(numbers) do
    local _, at, ends, text = cmsgpack.unpack(call("HGET", prefix .. "entry", number))
    if given.since and at < given.since then
        break
    end
    shown[#shown + 1] = show_all({ tonumber(number), at, text, ends }, 4)
end
return "[" .. concat(shown, ",") .. "]"
