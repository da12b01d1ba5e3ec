-- clash: what a request does to what already stands for its key. The same rules as duly.clash, written in
-- Lua because they must be applied where the key is locked; a test compares the two over every combination.
--
-- request: id, key, clash, overlap, per_key, window (of its guard), trailing.
-- scene: waiting and running (lists of id and key, oldest request first), window (closes_at, id), has_marker.

local clash = {}
do
    local function of_key(standers, key)
        local found = {}
        for place = 1, #standers do
            if standers[place].key == key then
                found[#found + 1] = standers[place]
            end
        end
        return found
    end

    local function ids_of(standers)
        local ids = {}
        for place = 1, #standers do
            ids[place] = standers[place].id
        end
        return ids
    end

    -- Waiting jobs of the serial but not of the key are earlier ticks of one schedule.
    local function overtaken(request, scene)
        if request.overlap == "queue_all" or request.overlap == "allow" then
            return {}
        end
        return ids_of(scene.waiting)
    end

    local function seed(request, scene)
        local standing = scene.waiting[1] or scene.running[1]
        if standing then
            return { decision = "kept", id = standing.id }
        elseif scene.has_marker then
            return { decision = "skipped", id = request.id }
        end
        return { decision = "created", id = request.id, creates = true }
    end

    local function replace(request, scene)
        local older = ids_of(of_key(scene.waiting, request.key))
        for _, id in ipairs(ids_of(of_key(scene.running, request.key))) do
            older[#older + 1] = id
        end
        return {
            decision = older[1] and "replaced" or "created",
            id = request.id,
            creates = true,
            is_parked = scene.running[1] ~= nil and request.overlap ~= "allow",
            supersedes = older,
            cancels = request.overlap == "cancel_previous" and ids_of(scene.running) or nil,
            opens_window = request.window ~= nil,
        }
    end

    local function inside_window(request, scene)
        if not request.trailing then
            return { decision = "kept", id = scene.window.id, is_suppressed = true }
        end
        local closes_at = scene.window.closes_at
        local same = of_key(scene.waiting, request.key)
        local newest = same[#same]
        if newest then
            return { decision = "kept", id = newest.id, merges_into = newest.id, due = closes_at }
        end
        local is_parked = scene.running[1] ~= nil and request.overlap ~= "allow"
        return {
            decision = is_parked and "queued" or "created",
            id = request.id,
            creates = true,
            is_parked = is_parked,
            due = closes_at,
        }
    end

    local function beside_a_run(request, scene)
        local same = of_key(scene.running, request.key)
        local placement = { id = request.id, creates = true, opens_window = request.window ~= nil }
        if request.overlap == "skip" then
            local runs = same[1] and same or scene.running
            return { decision = "skipped", id = runs[#runs].id, is_suppressed = true }
        end
        placement.overtakes = overtaken(request, scene)
        if request.overlap == "allow" then
            placement.decision = "created"
            placement.supersedes = ids_of(same)
        elseif request.overlap == "cancel_previous" then
            placement.decision = "replaced"
            placement.is_parked = true
            placement.supersedes = ids_of(same)
            placement.cancels = ids_of(scene.running)
        else
            placement.is_parked = #scene.running >= request.per_key
            placement.decision = placement.is_parked and "queued" or "created"
        end
        return placement
    end

    local function place_beside(request, scene)
        local same = of_key(scene.waiting, request.key)
        local newest = same[#same]
        local opens_window = request.window ~= nil
        if newest then -- after a recovery two may wait: the newer one holds the newer wish
            return { decision = "kept", id = newest.id, merges_into = newest.id, opens_window = opens_window }
        elseif scene.running[1] then
            return beside_a_run(request, scene)
        end
        local follows = request.overlap == "queue_all" and request.per_key == 1 and scene.waiting[1] ~= nil
        return {
            decision = follows and "queued" or "created",
            id = request.id,
            creates = true,
            is_parked = follows,
            overtakes = overtaken(request, scene),
            opens_window = opens_window,
        }
    end

    function clash.place(request, scene, at)
        if request.clash == "seed" then
            return seed(request, scene)
        elseif request.clash == "replace" then
            return replace(request, scene)
        elseif request.window and scene.window and at < scene.window.closes_at then
            return inside_window(request, scene)
        end
        return place_beside(request, scene)
    end
end
