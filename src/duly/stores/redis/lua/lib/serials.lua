-- serials: the live jobs of one serial, oldest request first, in three ranks: `w` waits and may be lent,
-- `p` is parked behind somebody, `r` is on loan. One sorted set per serial, its members led by the rank.

local serials = {}
do
    local views = {}

    function serials.view_of(serial)
        local view = views[serial]
        if view then
            return view
        end
        if stored.serials[serial] then
            flush() -- jobs of this serial went the straight way before, and that is not written yet
        end
        stored.serials[serial] = true
        view = { name = "serial:" .. serial, w = {}, p = {}, r = {} }
        local found = call("ZRANGE", prefix .. view.name, 0, -1, "WITHSCORES")
        for place = 1, #found, 2 do
            local member = found[place]
            local list = view[member:sub(1, 1)]
            list[#list + 1] = { id = member:sub(2), generation = tonumber(found[place + 1]) }
        end
        view.is_tight = #view.w > 0 and #view.r > 0
        views[serial] = view
        return view
    end

    local function drop(list, id)
        for place = #list, 1, -1 do
            if list[place].id == id then
                table.remove(list, place)
                return
            end
        end
    end

    local function add(list, id, generation)
        local place = #list
        while place > 0 and list[place].generation > generation do
            place = place - 1
        end
        table.insert(list, place + 1, { id = id, generation = generation })
    end

    -- Where a row stands among those of its serial, as its state says.
    local function rank_in_serial(state, is_parked)
        if state == "waiting" then
            return is_parked and "p" or "w"
        end
        return state == "running" and "r" or nil
    end

    function serials.stand(row)
        local before = rank_in_serial(row.was_state, row.was_parked)
        local after = rank_in_serial(row.state, row.is_parked)
        if before == after and row.was_generation == row.generation then
            return
        end
        local serial = row.serial
        local view = serials.view_of(serial)
        if before then
            drop(view[before], row.id)
            pending.rank(view.name, before .. row.id, false)
        end
        if after then
            add(view[after], row.id, row.generation)
            pending.rank(view.name, after .. row.id, row.generation)
        end
        local is_tight = #view.w > 0 and #view.r > 0
        if is_tight ~= view.is_tight then
            view.is_tight = is_tight
            pending.belong("tight", serial, is_tight) -- serials with a ready job beside a run: claims look for these
        end
    end

    -- Ready and parked ones together, oldest request first.
    function serials.waiting_in(view)
        local all = {}
        local p = 1
        for w = 1, #view.w do
            while view.p[p] and view.p[p].generation < view.w[w].generation do
                all[#all + 1] = view.p[p]
                p = p + 1
            end
            all[#all + 1] = view.w[w]
        end
        for place = p, #view.p do
            all[#all + 1] = view.p[place]
        end
        return all
    end

    -- The jobs behind entries of a view. One whose row is gone (somebody deleted keys) stands in nobody's way.
    function serials.rows_in(entries)
        local ids = {}
        for place = 1, #entries do
            ids[place] = entries[place].id
        end
        return rows.all_of(ids)
    end
end
