-- clear_out: throws out a portion of what has arrived of a move that was undone, or of what a move has carried
-- away from here; the notice goes last.
-- [[where to go on, 0 at the end]], or [] for another move

if not house.is_at(given.move, { "arriving", "gone" }) then
    return "[]"
end
local found = call("SCAN", given.cursor, "MATCH", prefix .. "*", "COUNT", 1000)
for _, name in ipairs(found[2]) do
    if name ~= prefix .. "house" and name ~= prefix .. "meta" then
        call("DEL", name)
    end
end
if found[1] == "0" then
    call("DEL", prefix .. "house")
end
return "[[" .. json(found[1]) .. "]]"
