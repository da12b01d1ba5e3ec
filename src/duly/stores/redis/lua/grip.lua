-- grip: one holder at a time. The token rises with every acquisition. [[token]] or [] when it is taken

local ends_at = call("ZSCORE", prefix .. "grips", given.name)
if ends_at and tonumber(ends_at) > boot then
    return "[]"
end
local token = pending.count_up()
pending.write("locks", given.name, cmsgpack.pack(token, given.owner))
pending.rank("grips", given.name, boot + given.ttl)
pending.flush()
return "[[" .. whole(token) .. "]]"
