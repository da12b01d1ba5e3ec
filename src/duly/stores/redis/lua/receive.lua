-- receive: from now on only this move writes here, unless somebody lives here already.
-- [[stage, move, other, cursor]] or []

if not house.stage then
    if call("EXISTS", prefix .. "state") == 1 then
        return "[]"
    end
    house.put_up("arriving", given.move, given.other)
end
return house.shown()
