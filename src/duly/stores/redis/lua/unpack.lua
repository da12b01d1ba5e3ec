-- unpack: stores the jobs after a generation, once. [[up to which jobs are here now]], or [] for another move
-- Fields of a job in the order duly.stores.redis.moving sends them; false means absent.

local rows, index = need("rows", "index")

local function read(values)
    local task, queue_name, priority, key = values[2], values[3], values[4], values[5] or nil
    local lines, serial = values[38], values[6] or nil
    local row = {
        id = values[1],
        lane = naming.lane_of(task, queue_name, priority).name,
        serial = serial,
        generation = values[7],
        born = values[8],
        state = values[9],
        is_parked = values[10],
        ready_at = values[11],
        epoch = values[12],
        attempt = values[13],
        lines = #lines,
        story = lines[1],
        finished_at = values[14] or nil,
        keep_done = values[15],
        nonce = NOBODYS,
        worker = values[16],
        reason = values[17],
        is_suspect = values[18],
        is_at_most_once = values[19] == "at_most_once",
        is_keyed = key ~= nil or serial ~= nil,
        has_result = values[34] and true or false,
        has_progress = values[35] and true or false,
    }
    row.rest = {
        delivery = values[19],
        crashes = values[20],
        deferrals = values[21],
        cycle = values[22],
        due = values[23],
        first_failure = values[24] or nil,
        superseded_by = values[25] or nil,
        wish = values[26] or nil,
        created_at = values[27],
        expires_at = values[28] or nil,
        expires_after = values[29] or nil,
        key = key,
        tick = values[30] or nil,
        keep_failed = values[31],
        perpetual = values[32],
        overlap = values[36],
        per_key = values[37],
    }
    return row
end

local function store(values)
    local row, lines = read(values), values[38]
    rows.add(row)
    pending.write("body", row.id, values[39])
    if values[33] then
        rows.set_error(row, values[33], values[41], values[42])
    end
    for name, text in pairs({ result = values[34], progress = values[35] }) do
        if text then
            pending.write(name, row.id, text)
        end
    end
    if values[40] then
        pending.rank("results", row.id, values[40])
    end
    for place = 2, #lines do
        pending.append("history:" .. row.id, lines[place])
    end
    index.update(row)
end

if not house.is_at(given.move, { "arriving" }) then
    return "[]"
end
local cursor = tonumber(call("HGET", prefix .. "house", "cursor"))
if cursor == given.after and given.jobs[1] then
    for _, values in ipairs(given.jobs) do
        store(values)
        cursor = values[7]
    end
    flush()
    call("HSET", prefix .. "house", "cursor", whole(cursor))
end
return "[[" .. whole(cursor) .. "]]"
