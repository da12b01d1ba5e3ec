-- clock: the server's commands, the prefix of every key, and the time.
-- KEYS[1] is the prefix, hash tag included; ARGV begins with the wall and the boot time of a test clock in
-- microseconds (empty: the server's clock serves as both).

if redis.replicate_commands then
    redis.replicate_commands() -- before 7 a host could have switched it off, and TIME would forbid writing
end

local call, format = redis.call, string.format
local prefix = KEYS[1]
local now, boot = tonumber(ARGV[1]), tonumber(ARGV[2])
if not now then
    local time = call("TIME")
    now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    boot = now
end
