-- open: lays down which layout this namespace has, and answers what is laid down and whom it still serves.
-- [[layout, oldest layout served]]

local meta = prefix .. "meta"
call("HSETNX", meta, "layout", given.layout)
call("HSETNX", meta, "serves", given.layout)
local found = call("HMGET", meta, "layout", "serves")
return "[[" .. whole(found[1]) .. "," .. whole(found[2]) .. "]]"
