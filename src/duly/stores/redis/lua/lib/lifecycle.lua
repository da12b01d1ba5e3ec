-- lifecycle: how a row ends or waits again, and whom that lets go.

local lifecycle = {}
do
    -- Runs up to the limit; for a chain also the one in front that waits to be tried again.
    local function is_in_the_way(view, first)
        if #view.r >= math.max(first.per_key, 1) then
            return true
        end
        return first.overlap == "queue_all" and first.per_key == 1 and #view.w > 0
    end

    -- Something of this serial ended or waits again: the oldest parked request may become ready.
    function lifecycle.promote(serial)
        if not serial then
            return
        end
        local view = serials.view_of(serial)
        while view.p[1] do
            local row = rows.of(view.p[1].id)
            if row then
                if not is_in_the_way(view, rows.open(row)) then
                    row.is_parked = false
                    index.update(row)
                end
                return
            end
            pending.rank(view.name, "p" .. view.p[1].id, false) -- its row was deleted by hand
            table.remove(view.p, 1)
        end
    end

    -- A perpetual that was stopped stays stopped, unless it is deleted or a newer request stands.
    local function mark(row)
        local rest = rows.open(row)
        if not (row.serial and rest.perpetual) or rest.wish == "delete" then
            return
        end
        local view = serials.view_of(row.serial)
        if #view.w + #view.p + #view.r == 0 then
            pending.write("markers", row.serial, whole(now))
        end
    end

    -- A terminal move. Whoever waits parked behind this serial may now be promoted.
    function lifecycle.finish(row, event, reason)
        row.state = verdicts.move(row.state, event)
        row.reason = reason
        row.finished_at = now
        row.is_parked = false
        index.update(row)
        if event == "cancel" or event == "stop" then
            mark(row)
        end
        lifecycle.promote(row.serial)
    end

    function lifecycle.wait_again(row, event, ready_at)
        row.state = verdicts.move(row.state, event)
        row.ready_at = ready_at
        row.worker = ""
        row.nonce = NOBODYS -- whatever the old claim still writes is refused from here on
        row.has_begun, row.began_isolated = false, false
        rows.forget_progress(row)
        index.update(row)
        lifecycle.promote(row.serial)
    end

    -- The one condition of every write by a worker.
    function lifecycle.fence_holds(row, epoch, nonce)
        return row and row.state == "running" and row.epoch == epoch and row.nonce == nonce
    end

    function lifecycle.order_for(row)
        if not row.has_orders then
            return nil
        end
        local rest = rows.open(row)
        if rest.wish == "cancel" or rest.wish == "delete" then
            return "cancel"
        end
        return rest.superseded_by and "superseded" or nil
    end
end
