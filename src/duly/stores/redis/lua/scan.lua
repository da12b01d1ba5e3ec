-- scan: names of keys that begin with a word, a portion at a time. [[where to go on, 0 at the end], [name, …]]

local found = call("SCAN", given.cursor, "MATCH", prefix .. given.word .. "*", "COUNT", 1000)
local names = {}
for place, name in ipairs(found[2]) do
    names[place] = json(name:sub(#prefix + #given.word + 1))
end
return "[[" .. json(found[1]) .. "],[" .. concat(names, ",") .. "]]"
