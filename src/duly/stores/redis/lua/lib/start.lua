-- start: what every operation begins with: its values, as JSON the third of ARGV, and text that loses no digit.
--
-- A script is built anew at every call, and each function of it costs: so the parts are tables, which one
-- local holds each, and what only unusual jobs need is a function's inside, built by `need` when it is met.

local need -- answers a part that is built only when it is asked for
local json, concat = cjson.encode, table.concat
local given = cjson.decode(ARGV[3])

-- Lua's own conversion keeps 14 digits; a moment in microseconds has 16. Printing whole numbers as such takes
-- half the time of "%.0f"; Lua keeps them exactly up to 2^53, and as the server's long integers there.
local function whole(number)
    return format("%d", number)
end

-- Any field of a row as JSON; cjson itself is trusted with text only.
local function show(value)
    local kind = type(value)
    if kind == "string" then
        return json(value)
    elseif kind == "number" then
        return format("%d", value)
    elseif kind == "boolean" then
        return value and "true" or "false"
    end
    return "null"
end

local function show_all(values, count)
    local shown = {}
    for place = 1, count do
        shown[place] = show(values[place])
    end
    return "[" .. concat(shown, ",") .. "]"
end
