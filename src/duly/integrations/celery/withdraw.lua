-- withdraw: a request that could not be sent takes its guard back, unless somebody else holds it by now.
-- KEYS: the window, the pointer to the request that trails. ARGV: the request's id.
for _, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[1] then
        redis.call('DEL', key)
    end
end
return 1
