-- workers: who is there, and until when its lease runs, in boot time.

local workers = {}
do
    local presences, holders = {}, {}

    function workers.presence_of(worker)
        local presence = presences[worker]
        if presence == nil then
            local text = call("HGET", prefix .. "workers", worker)
            presence = false
            if text then
                presence = {}
                presence.lease_until, presence.seen_at, presence.host, presence.card, presence.disowned_at =
                    cmsgpack.unpack(text)
            end
            presences[worker] = presence
        end
        return presence
    end

    local function lease_until(worker)
        local presence = workers.presence_of(worker)
        return presence and presence.lease_until or 0
    end

    function workers.has_lease(worker)
        return lease_until(worker) > boot
    end

    -- What a worker asked for before it disowned what it had not received comes too late: it would never know.
    function workers.has_disowned(worker, asked)
        local presence = workers.presence_of(worker)
        return presence and presence.disowned_at and asked <= presence.disowned_at
    end

    function workers.disown(worker, asked)
        local presence = workers.presence_of(worker)
        if presence then
            presence.disowned_at = asked
            workers.be_present(worker, presence)
        end
    end

    -- The end of a lease on the wall clock; a worker that left has none.
    function workers.lease_end(worker)
        local presence = workers.presence_of(worker)
        return presence and now + presence.lease_until - boot or now
    end

    function workers.be_present(worker, presence)
        presences[worker] = presence
        holders[worker] = true
        local text = cmsgpack.pack(presence.lease_until, presence.seen_at, presence.host, presence.card, presence.disowned_at)
        pending.write("workers", worker, text)
    end

    function workers.be_absent(worker)
        presences[worker] = false
        holders[worker] = true
        pending.write("workers", worker, false)
    end

    -- What this worker holds has changed in this call.
    function workers.touch(worker)
        holders[worker] = true
    end

    -- A worker with jobs on loan is found by the end of its lease; one without is not looked at.
    function workers.flush()
        for worker in pairs(holders) do
            if call("EXISTS", prefix .. "held:" .. worker) == 1 then
                call("ZADD", prefix .. "holders", lease_until(worker), worker)
            else
                call("ZREM", prefix .. "holders", worker)
            end
        end
        holders = {}
    end
end

local function flush()
    pending.flush()
    workers.flush()
end
