-- upkeep: what bodies need to the end of their run is refused only when nothing runs any more.

if not house.hears() then
    return redis.error_reply("DULYHOUSE " .. house.shown())
end
