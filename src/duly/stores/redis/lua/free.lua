-- free: a lane moves again. [[whether it was held]]

local freed = call("HDEL", prefix .. "switches", given.scope .. ":" .. given.name)
pending.is_ready = freed == 1
pending.ring()
return format("[[%d]]", freed)
