-- take_down: the notice of this very move goes; a store that was filled remembers by what. [[whether]]

if not house.is_at(given.move, given.since) then
    return "[[0]]"
end
call("DEL", prefix .. "house")
if given.record then
    call("HSET", prefix .. "record:" .. given.record, given.name, given.move)
end
return "[[1]]"
