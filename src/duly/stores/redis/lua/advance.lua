-- advance: the notice of this very move says another stage. [[whether]]

if not house.is_at(given.move, given.since) then
    return "[[0]]"
end
call("HSET", prefix .. "house", "stage", given.stage)
return "[[1]]"
