-- starts: the starts of a task that count for its rate, oldest first. [[at], …]

local shown = {}
for place, at in ipairs(call("LRANGE", prefix .. "starts:" .. given.task, 0, -1)) do
    shown[place] = "[" .. at .. "]"
end
return "[" .. concat(shown, ",") .. "]"
