-- record: writes a small named text, or removes it. []

if given.text then
    call("HSET", prefix .. "record:" .. given.kind, given.name, given.text)
else
    call("HDEL", prefix .. "record:" .. given.kind, given.name)
end
return "[]"
