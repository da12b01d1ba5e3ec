-- gate: who would add to a store that is being left or filled is told where everything goes.

if house.stage then
    return redis.error_reply("DULYHOUSE " .. house.shown())
end
