-- guard: whether a request may be sent now, is dropped, or is sent for the end of the window.
-- KEYS: the window, the pointer to the request that trails. ARGV: the request's id, the window in milliseconds,
-- '1' if updates must not be lost, the newest arguments, the prefix under which they are kept, how long.
-- Answers the decision, the id of the request that stands for this one, the milliseconds until the window ends.
local holder = redis.call('GET', KEYS[1])
if not holder then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return {'send', ARGV[1], 0}
end
if ARGV[3] ~= '1' then
    return {'drop', holder, 0}
end
local left = redis.call('PTTL', KEYS[1])
local trailing = redis.call('GET', KEYS[2])
local id = trailing or ARGV[1]
redis.call('SET', ARGV[5] .. id, ARGV[4], 'PX', left + tonumber(ARGV[6]))
if trailing then
    return {'merge', id, left}
end
redis.call('SET', KEYS[2], id, 'PX', left + tonumber(ARGV[6]))
return {'trail', id, left}
