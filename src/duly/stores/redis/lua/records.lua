-- records: the texts of one kind. [[name, text], …]

local shown = {}
local found = call("HGETALL", prefix .. "record:" .. given.kind)
for place = 1, #found, 2 do
    shown[#shown + 1] = show_all({ found[place], found[place + 1] }, 2)
end
return "[" .. concat(shown, ",") .. "]"
