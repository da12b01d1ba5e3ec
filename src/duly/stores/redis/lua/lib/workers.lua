-- workers: who is there, and until when its lease runs, in boot time.

local holders = {} -- workers whose loans changed in this call
local presence_of, lease_until, has_lease, lease_end, be_present, be_absent
do
    local presences = {}

    function presence_of(worker)
        local presence = presences[worker]
        if presence == nil then
            local text = call("HGET", prefix .. "workers", worker)
            presence = false
            if text then
                presence = {}
                presence.lease_until, presence.seen_at, presence.host, presence.card = cmsgpack.unpack(text)
            end
            presences[worker] = presence
        end
        return presence
    end

    function lease_until(worker)
        local presence = presence_of(worker)
        return presence and presence.lease_until or 0
    end

    function has_lease(worker)
        return lease_until(worker) > boot
    end

    -- The end of a lease on the wall clock; a worker that left has none.
    function lease_end(worker)
        local presence = presence_of(worker)
        return presence and now + presence.lease_until - boot or now
    end

    function be_present(worker, presence)
        presences[worker] = presence
        holders[worker] = true
        write("workers", worker, cmsgpack.pack(presence.lease_until, presence.seen_at, presence.host, presence.card))
    end

    function be_absent(worker)
        presences[worker] = false
        holders[worker] = true
        write("workers", worker, false)
    end
end
