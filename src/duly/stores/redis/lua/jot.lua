-- jot: adds an entry to a diary, or rewrites the one of that number, if it is still there. [[number]]

local number = given.number
local text = number and call("HGET", prefix .. "entry", whole(number))
local kind, at, ends
if text then
    kind, at, ends = cmsgpack.unpack(text)
end
if kind ~= given.kind then
    number, kind, at, ends = pending.count_up(), given.kind, now, now + given.keep
    pending.rank("diary:" .. kind, whole(number), number)
    pending.rank("entries", whole(number), ends)
end
pending.write("entry", whole(number), cmsgpack.pack(kind, at, ends, given.text))
pending.flush()
return "[[" .. whole(number) .. "]]"
