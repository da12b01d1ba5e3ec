-- newest: the arguments a trailing request is to run with. Later requests find nobody trailing.
-- They stay readable, for the same message may be delivered again after a death.
-- KEYS: the pointer to the request that trails, its arguments. ARGV: the request's id.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
return redis.call('GET', KEYS[2])
